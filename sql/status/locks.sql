-- The sessions that hold a lock of whole tables of this database, which even a read waits for.
-- State and statement are null if this role may not see them.
SELECT coalesce(lock.pid, 0) AS process,
       coalesce(
           nullif(activity.application_name, ''), activity.usename::text, 'a prepared transaction'
       ) AS name,
       activity.state,
       extract(epoch FROM clock_timestamp() - activity.state_change)::float8 AS seconds,
       CASE
           WHEN activity.state IS NOT NULL
           THEN left(regexp_replace(activity.query, '\s+', ' ', 'g'), 60)
       END AS statement,
       array_agg(class.relname::text ORDER BY class.relname) AS tables,
       format('SELECT pg_terminate_backend(%%s)', lock.pid) AS "end"
  FROM pg_locks AS lock
  JOIN pg_class AS class ON class.oid = lock.relation AND class.relkind IN ('r', 'p')
  LEFT JOIN pg_stat_activity AS activity ON activity.pid = lock.pid
 WHERE lock.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND lock.mode = 'AccessExclusiveLock'
   AND lock.granted
   AND lock.pid IS DISTINCT FROM pg_backend_pid()
   AND class.relnamespace <> 'pg_catalog'::regnamespace
 GROUP BY lock.pid, activity.application_name, activity.usename, activity.state,
          activity.state_change, activity.query
 ORDER BY seconds DESC NULLS LAST, process;
