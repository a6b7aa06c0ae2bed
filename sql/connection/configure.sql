-- What each new connection of the pool promises: no statement, lock or forgotten transaction lasts for ever;
-- and a prepared statement is planned once. Left to itself, Postgres plans lists anew each time, because
-- the plan for a known limit always looks cheaper than it is.
SELECT set_config('statement_timeout', %(statement_timeout)s::text, false) AS statement,
       set_config('lock_timeout', %(statement_timeout)s::text, false) AS lock,
       set_config('idle_in_transaction_session_timeout', %(idle_timeout)s::text, false) AS idle,
       set_config('plan_cache_mode', 'force_generic_plan', false) AS plan;
