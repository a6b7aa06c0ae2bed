-- Renew the row of this process, and return the other processes of its host that have not renewed
-- their rows for 30 seconds, which is three turns, with the time since their last sign of life.
-- Rows that nobody has renewed for an hour are deleted. The commit waits for no disk and no
-- standby: after a crash, the next turn writes the row again.
WITH forgotten AS (
    DELETE FROM processes
     WHERE seen_at < now() - interval '1 hour'
       AND name <> %(name)s
), renewed AS (
    INSERT INTO processes (name, speedups)
    VALUES (%(name)s, %(speedups)s)
        ON CONFLICT (name) DO UPDATE
       SET seen_at = now()
 RETURNING set_config('synchronous_commit', 'off', true)
)
SELECT name,
       extract(epoch FROM now() - seen_at)::float8 AS seconds
  FROM processes
 WHERE seen_at < now() - interval '30 seconds'
   AND split_part(split_part(name, ' ', 4), ':', 1)
       = split_part(split_part(%(name)s, ' ', 4), ':', 1)
   AND name <> %(name)s
 ORDER BY name;
