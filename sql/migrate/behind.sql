-- Describe what is more than this many bytes behind: a row for each such synchronous standby, and a
-- row for the archive of WAL.
SELECT format(
           'the standby %%s is %%s MB behind',
           application_name,
           (pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) / 1048576)::bigint
       ) AS text
  FROM pg_stat_replication
 WHERE sync_state IN ('sync', 'quorum')
   AND pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) > %(allowed_bytes)s::bigint
 UNION ALL
SELECT format(
           'the archive of WAL has %%s, while PostgreSQL writes %%s',
           last_archived_wal,
           pg_walfile_name(pg_current_wal_lsn())
       )
  FROM pg_stat_archiver
 WHERE current_setting('archive_mode') <> 'off'
   AND last_archived_wal ~ '^[0-9A-F]{24}'
 -- The name of a WAL file ends with the number of its segment. Of the 16 digits, the first 8 count
 -- units of 4 GB, and the last 8 the segments within the unit. The archive reaches to the end of
 -- the segment.
   AND pg_current_wal_lsn()
       > (substr(last_archived_wal, 9, 8) || '/0')::pg_lsn
         + (('x' || substr(last_archived_wal, 17, 8))::bit(32)::bigint + 1)
         * pg_size_bytes(current_setting('wal_segment_size'))
         + %(allowed_bytes)s;
