-- How many standbys a commit waits for, and whether the WAL reaches its archive.
SELECT current_setting('synchronous_standby_names') AS synchronous_names,
       CASE current_setting('synchronous_standby_names')
           WHEN '' THEN 0
           ELSE coalesce(
               substring(
                   current_setting('synchronous_standby_names')
                   FROM '(?i)^\s*(?:(?:first|any)\s+)?(\d+)\s*\('
               ),
               '1'
           )::integer
       END AS synchronous_needed,
       current_setting('archive_mode') <> 'off' AS archiving,
       archiver.last_archived_wal AS archived,
       extract(epoch FROM clock_timestamp() - archiver.last_archived_time)::float8
       AS archived_seconds,
       coalesce(
           archiver.last_failed_time > coalesce(archiver.last_archived_time, '-infinity'), false
       ) AS archive_fails,
       archiver.last_failed_wal AS failed
  FROM pg_stat_archiver AS archiver;
