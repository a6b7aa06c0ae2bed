-- The standbys that are connected to this primary. Those for which commits wait come first.
-- Without the role pg_read_all_stats, PostgreSQL shows a row for each standby, but only NULL in it.
SELECT coalesce(standby.application_name, '') AS name,
       coalesce(standby.sync_state, 'unknown') AS state,
       pg_wal_lsn_diff(pg_current_wal_lsn(), standby.replay_lsn)::bigint AS behind_bytes,
       CASE
           WHEN standby.replay_lsn >= pg_current_wal_lsn() THEN 0
           ELSE extract(epoch FROM standby.replay_lag)
       END::float8 AS behind_seconds
  FROM pg_stat_replication AS standby
 WHERE NOT pg_is_in_recovery()
 -- While pg_basebackup copies the server, it is listed like a standby.
   AND standby.state IS DISTINCT FROM 'backup'
 ORDER BY array_position('{sync,quorum,potential,async}', standby.sync_state), name;
