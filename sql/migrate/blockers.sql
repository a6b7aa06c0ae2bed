-- The processes that a process waits for, each with a statement that ends it.
-- The name of another run of migrate is like task-service migrate 1.0.0 host7:4711.
SELECT blocker.pid,
       format('process %%s', blocker.pid)
       || coalesce(
              format(
                  ' (%%s, %%s for %%s s): %%s',
                  coalesce(nullif(activity.application_name, ''), activity.usename, 'unknown'),
                  coalesce(activity.state, 'active'),
                  round(extract(epoch FROM clock_timestamp() - activity.state_change)),
                  left(regexp_replace(activity.query, '\s+', ' ', 'g'), 60)
              ),
              ''
          )
       || format('; to end it: SELECT pg_terminate_backend(%%s)', blocker.pid) AS description,
       CASE
           WHEN activity.application_name LIKE 'task-service migrate %%'
           THEN format(
                    '%%s (%%s)',
                    split_part(activity.application_name, ' ', 4),
                    split_part(activity.application_name, ' ', 3)
                )
       END AS run
  FROM unnest(pg_blocking_pids(%(pid)s)) AS blocker (pid)
  LEFT JOIN pg_stat_activity AS activity ON activity.pid = blocker.pid;
