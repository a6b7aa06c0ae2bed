-- Return whether PostgreSQL archives its WAL, and whether the last attempt failed.
SELECT current_setting('archive_mode') <> 'off' AS enabled,
       archiver.last_archived_wal AS last_file,
       extract(epoch FROM clock_timestamp() - archiver.last_archived_time)::float8
       AS seconds_since_last,
       coalesce(
           archiver.last_failed_time > coalesce(archiver.last_archived_time, '-infinity'), false
       ) AS fails,
       archiver.last_failed_wal AS failed_file
  FROM pg_stat_archiver AS archiver;
