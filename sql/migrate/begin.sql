-- Disable the timeouts of this transaction or session, even if the role or the database sets them.
-- Only lock_timeout remains, because requests queue behind a migration that waits for a lock.
-- If the client disconnects, its running statement ends within two seconds and releases its locks.
-- Without check_function_bodies, functions may be created before the functions that they call.
SELECT set_config(
           name,
           CASE name
               WHEN 'lock_timeout' THEN %(lock_timeout)s::text
               WHEN 'client_connection_check_interval' THEN '2s'
               ELSE '0'
           END,
           %(is_local)s
       )
  FROM pg_settings
 WHERE name IN (
           'lock_timeout',
           'statement_timeout',
           'transaction_timeout',
           'idle_in_transaction_session_timeout',
           'client_connection_check_interval',
           'check_function_bodies'
       );
