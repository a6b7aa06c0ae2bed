-- The sessions of this database that wait for a lock or a synchronous standby, longest wait first,
-- each with the sessions that hold the lock.
SELECT coalesce(waiting.pid, 0) AS process,
       coalesce(waiting.application_name, '') AS name,
       CASE waiting.wait_event WHEN 'SyncRep' THEN 'SyncRep' ELSE 'lock' END AS waits_for,
       extract(epoch FROM clock_timestamp() - waiting.state_change)::float8 AS seconds,
       ARRAY(
           SELECT concat_ws(' ', holding.pid, holding.application_name, holding.state)
             FROM pg_stat_activity AS holding
            WHERE holding.pid = ANY (pg_blocking_pids(waiting.pid))
            ORDER BY holding.pid
       ) AS blocked_by
  FROM pg_stat_activity AS waiting
 WHERE waiting.datname = current_database()
   AND (waiting.wait_event_type = 'Lock' OR waiting.wait_event = 'SyncRep')
 ORDER BY seconds DESC;
