-- The web processes and workers that have a connection to this database, by their names:
-- task-service web 1.0.0 host:4711. It uses no table and no function of the service.
SELECT split_part(application_name, ' ', 2) AS program,
       split_part(application_name, ' ', 3) AS version,
       split_part(application_name, ' ', 4) AS process,
       count(*) AS connections,
       to_char(min(backend_start) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
       AS connected_at,
       greatest(extract(epoch FROM clock_timestamp() - max(state_change)), 0)::float8
       AS silent_seconds
  FROM pg_stat_activity
 WHERE datname = current_database()
   AND application_name ~ '^task-service (web|worker) '
 GROUP BY application_name
 ORDER BY program, process;
