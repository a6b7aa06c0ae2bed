-- Add to the stored counters what a process has counted.
-- Every process updates the rows in the same order, so that no two processes deadlock. The commit
-- waits for no disk and no standby: a crash may lose the last counts.
INSERT INTO counters AS counter (series, value)
SELECT series, value
  FROM unnest(%(series)s::text[], %(values)s::float8[]) AS counted (series, value)
 ORDER BY series
    ON CONFLICT (series) DO UPDATE
   SET value = counter.value + excluded.value,
       updated_at = now()
RETURNING set_config('synchronous_commit', 'off', true);
