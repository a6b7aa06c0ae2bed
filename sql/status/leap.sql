-- How far the clock has leapt ahead, as the worker noticed in its last round of pruning.
SELECT extract(epoch FROM advanced_at - until)::float8 AS seconds
  FROM pruning_clock;
