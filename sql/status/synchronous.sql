-- Return for how many standbys a commit waits.
SELECT names,
       CASE
           WHEN names = '' OR pg_is_in_recovery() THEN 0
           ELSE coalesce(
               substring(names FROM '(?i)^\s*(?:(?:first|any)\s+)?(\d+)\s*\('),
               '1'
           )::integer
       END AS needed
  FROM current_setting('synchronous_standby_names') AS names;
