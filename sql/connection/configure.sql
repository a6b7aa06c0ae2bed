-- Set the timeouts of a new connection of the pool, and let PostgreSQL plan each statement once. A
-- statement waits for a lock for a quarter of its time, so that requests that wait for one another
-- do not occupy all threads.
-- By default PostgreSQL would plan a list again at every execution, because it underestimates the
-- cost of a plan for a known LIMIT.
-- enable_seqscan is off because PostgreSQL would read and hash a whole small table to find one row;
-- the gate would then need twice as much work as with its four indexes. jit is off because, before
-- version 18, a scan of a table without an index then seems to cost so much that PostgreSQL would
-- compile the statement.
SELECT set_config('statement_timeout', %(statement_timeout)s, false),
       set_config('lock_timeout', %(lock_timeout)s, false),
       set_config('idle_in_transaction_session_timeout', %(idle_timeout)s, false),
       set_config('plan_cache_mode', 'force_generic_plan', false),
       set_config('enable_seqscan', 'off', false),
       set_config('jit', 'off', false);
