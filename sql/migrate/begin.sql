-- Disable the timeouts of this transaction or session, as connection/without_timeouts does. Only
-- lock_timeout remains, because requests queue behind a migration that waits for a lock.
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
