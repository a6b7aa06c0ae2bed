-- Let this transaction create functions before the functions that they call.
SELECT set_config('check_function_bodies', 'off', true);
