-- The sessions of this database that have left a transaction open for at least this many seconds
-- and are idle in it, each with its last statement and the statement that ends it.
-- pg_dump with several jobs is idle for as long as they take.
-- If this role may not see the sessions of others, they are not listed.
SELECT coalesce(pid, 0) AS process,
       coalesce(nullif(application_name, ''), usename::text, '') AS name,
       extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds,
       left(regexp_replace(query, '\s+', ' ', 'g'), 60) AS statement,
       format('SELECT pg_terminate_backend(%%s)', pid) AS "end"
  FROM pg_stat_activity
 WHERE datname = current_database()
   AND state LIKE 'idle in transaction%%'
   AND application_name <> 'pg_dump'
   AND xact_start <= clock_timestamp() - %(seconds)s * interval '1 second'
 ORDER BY xact_start, process;
