-- The server and this database: clock, connections of all databases, size, oldest transaction.
-- Transactions of autovacuum and of pg_dump take as long as the tables are large, and end by
-- themselves: they do not count.
SELECT current_database()::text AS name,
       current_setting('server_version') AS version,
       pg_is_in_recovery() AS standby,
       current_setting('transaction_read_only')::boolean AS read_only,
       extract(epoch FROM clock_timestamp())::float8 AS clock,
       pg_database_size(current_database()) AS bytes,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')
       AS connections_used,
       current_setting('max_connections')::integer
       - current_setting('superuser_reserved_connections')::integer
       - coalesce(current_setting('reserved_connections', true)::integer, 0)
       AS connections_allowed,
       pg_backend_pid() AS backend_pid,
       (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = session_user)
       AS connection_limit,
       (
           SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8
             FROM pg_stat_activity
            WHERE datname = current_database()
              AND pid <> pg_backend_pid()
              AND backend_type <> 'autovacuum worker'
              AND application_name <> 'pg_dump'
       ) AS oldest_transaction_seconds,
       (
           SELECT count(*)
             FROM pg_stat_activity
            WHERE datname = current_database()
              AND query = '<insufficient privilege>'
       ) AS hidden_sessions;
