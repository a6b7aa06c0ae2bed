-- Disable the timeouts of this transaction, also those that the role or the database sets; only
-- lock_timeout remains, because requests queue behind a migration that waits for a lock.
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
