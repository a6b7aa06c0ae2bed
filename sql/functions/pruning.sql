-- Pruning: the time with which the worker compares the ages of rows.

-- Return the time up to which the worker prunes: now(), or an earlier time if the clock has leapt
-- ahead.
CREATE OR REPLACE FUNCTION pruning_time() RETURNS timestamptz
LANGUAGE sql STABLE
AS $$
    SELECT least(now(), (SELECT until FROM pruning_clock))
$$;
