-- What each new connection of the pool promises: no statement, lock or forgotten transaction lasts for ever.
SELECT set_config('statement_timeout', %(statement_timeout)s::text, false) AS statement,
       set_config('lock_timeout', %(statement_timeout)s::text, false) AS lock,
       set_config('idle_in_transaction_session_timeout', %(idle_timeout)s::text, false) AS idle;
