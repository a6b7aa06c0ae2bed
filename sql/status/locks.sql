-- The sessions that block others of this database, or might soon. A session is listed if others
-- wait for it, if it locks a whole table so that even reads wait, or if it is idle in a transaction
-- that may lock rows. A session that itself waits for a lock is not listed.
-- State and statement are NULL if this role may not see them.
WITH waits AS (
    SELECT blocker.pid, count(*) AS sessions,
           max(extract(epoch FROM clock_timestamp() - waiting.state_change))::float8 AS seconds
      FROM pg_stat_activity AS waiting
     CROSS JOIN unnest(pg_blocking_pids(waiting.pid)) AS blocker (pid)
     WHERE waiting.datname = current_database()
       AND waiting.wait_event_type = 'Lock'
     GROUP BY blocker.pid
), held AS (
    SELECT coalesce(pid, 0) AS pid,
           bool_or(mode = 'AccessExclusiveLock') AS whole,
           array_agg(DISTINCT relname::text ORDER BY relname::text) AS tables
      FROM pg_locks
      JOIN pg_class ON oid = relation AND relkind IN ('r', 'p')
     WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND mode <> 'AccessShareLock'
       AND granted
       AND pid IS DISTINCT FROM pg_backend_pid()
       AND relnamespace <> 'pg_catalog'::regnamespace
     GROUP BY pid
)
SELECT pid AS process,
       coalesce(
           nullif(activity.application_name, ''), activity.usename::text, 'a prepared transaction'
       ) AS name,
       activity.state,
       extract(epoch FROM clock_timestamp() - activity.state_change)::float8 AS seconds,
       CASE
           WHEN activity.state IS NOT NULL
           THEN left(regexp_replace(activity.query, '\s+', ' ', 'g'), 60)
       END AS statement,
       coalesce(held.tables, '{}') AS tables,
       coalesce(waits.sessions, 0) AS waiting,
       coalesce(waits.seconds, 0) AS waited,
       CASE pid
           WHEN 0 THEN 'ROLLBACK PREPARED and the gid that pg_prepared_xacts shows'
           ELSE format('SELECT pg_terminate_backend(%%s)', pid)
       END AS "end"
  FROM held
  FULL JOIN waits USING (pid)
  LEFT JOIN pg_stat_activity AS activity USING (pid)
 WHERE activity.wait_event_type IS DISTINCT FROM 'Lock'
   AND (held.whole OR waits.sessions > 0 OR activity.state LIKE 'idle in transaction%%')
 ORDER BY seconds DESC NULLS LAST, process;
