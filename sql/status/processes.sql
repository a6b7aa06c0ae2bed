-- The web processes and workers, found by the rows that they renew, and how many sessions have each
-- one's name, for example task-service web 1.0.0 host:4711.
-- Behind a connection pooler the number of sessions says nothing, and may be 0.
SELECT split_part(process.name, ' ', 2) AS program,
       split_part(process.name, ' ', 3) AS version,
       split_part(process.name, ' ', 4) AS process,
       process.speedups,
       count(session.pid) AS connections,
       to_char(process.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
       AS started_at,
       greatest(
           extract(
               epoch FROM clock_timestamp() - greatest(process.seen_at, max(session.state_change))
           ),
           0
       )::float8 AS silent_seconds
  FROM processes AS process
  LEFT JOIN pg_stat_activity AS session
    ON session.application_name = process.name
   AND session.datname = current_database()
 GROUP BY process.name
 ORDER BY program, process;
