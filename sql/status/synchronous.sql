-- Return for how many standbys a commit waits.
SELECT current_setting('synchronous_standby_names') AS names,
       CASE
           WHEN current_setting('synchronous_standby_names') = '' OR pg_is_in_recovery() THEN 0
           ELSE coalesce(
               substring(
                   current_setting('synchronous_standby_names')
                   FROM '(?i)^\s*(?:(?:first|any)\s+)?(\d+)\s*\('
               ),
               '1'
           )::integer
       END AS needed;
