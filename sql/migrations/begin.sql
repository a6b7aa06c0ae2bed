-- In this transaction no statement is cancelled because it runs long, whatever defaults the role or
-- the database has; one that waits for a lock ends after a while, because requests queue behind it.
SELECT set_config(
           name,
           CASE name WHEN 'lock_timeout' THEN %(lock_timeout)s::text ELSE '0' END,
           true
       )
  FROM pg_settings
 WHERE name IN (
           'lock_timeout',
           'statement_timeout',
           'transaction_timeout',
           'idle_in_transaction_session_timeout'
       );
