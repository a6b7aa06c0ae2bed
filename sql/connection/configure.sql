-- Set the timeouts of a new connection of the pool, and let PostgreSQL plan each statement once.
-- By default PostgreSQL would plan lists each time: for a given LIMIT it underestimates the cost.
SELECT set_config('statement_timeout', %(statement_timeout)s::text, false) AS statement,
       set_config('lock_timeout', %(statement_timeout)s::text, false) AS lock,
       set_config('idle_in_transaction_session_timeout', %(idle_timeout)s::text, false) AS idle,
       set_config('plan_cache_mode', 'force_generic_plan', false) AS plan;
