-- The standbys that are connected to this primary. Those for which commits wait come first.
-- Without the role pg_read_all_stats, PostgreSQL shows a row for each standby, but only NULL in it.
SELECT coalesce(application_name, '') AS name,
       coalesce(sync_state, 'unknown') AS state,
       pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint AS behind_bytes,
       CASE
           WHEN replay_lsn >= pg_current_wal_lsn() THEN 0
           ELSE extract(epoch FROM replay_lag)
       END::float8 AS behind_seconds
  FROM pg_stat_replication
 WHERE NOT pg_is_in_recovery()
 -- While pg_basebackup copies the server, it is listed like a standby.
   AND state IS DISTINCT FROM 'backup'
 ORDER BY array_position('{sync,quorum,potential,async}', sync_state), name;
