-- The standbys that are connected to this primary, those that a commit waits for first. Without
-- the role pg_read_all_stats PostgreSQL shows only that there is one: its columns are null.
SELECT coalesce(standby.application_name, '') AS name,
       coalesce(standby.sync_state, 'unknown') AS state,
       pg_wal_lsn_diff(pg_current_wal_lsn(), standby.replay_lsn)::bigint AS behind_bytes,
       CASE
           WHEN standby.replay_lsn >= pg_current_wal_lsn() THEN 0
           ELSE extract(epoch FROM standby.replay_lag)
       END::float8 AS behind_seconds
  FROM pg_stat_replication AS standby
 WHERE NOT pg_is_in_recovery()
 -- pg_basebackup is there too while it copies.
   AND standby.state IS DISTINCT FROM 'backup'
 ORDER BY array_position('{sync,quorum,potential,async}', standby.sync_state), name;
