-- Disable the timeouts of this transaction, even if the role or the database sets them, because a
-- command may take long: the workspace is large, or the program at the other end of its pipe waits.
-- If the client disconnects, its running statement ends within two seconds and releases its locks.
-- PgBouncer would pass settings of the session on to other clients.
SELECT set_config(
           name,
           CASE name
               WHEN 'client_connection_check_interval' THEN '2s'
               ELSE '0'
           END,
           true
       )
  FROM pg_settings
 WHERE name IN (
           'statement_timeout',
           'lock_timeout',
           'transaction_timeout',
           'idle_in_transaction_session_timeout',
           'client_connection_check_interval'
       );
