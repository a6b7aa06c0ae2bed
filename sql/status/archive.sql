-- Return whether PostgreSQL archives its WAL, and whether the last attempt failed.
SELECT current_setting('archive_mode') <> 'off' AS enabled,
       last_archived_wal AS last_file,
       extract(epoch FROM clock_timestamp() - last_archived_time)::float8
       AS seconds_since_last,
       coalesce(
           last_failed_time > coalesce(last_archived_time, '-infinity'), false
       ) AS fails,
       last_failed_wal AS failed_file
  FROM pg_stat_archiver;
