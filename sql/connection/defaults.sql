-- Set what the meaning of the statements and of their results depends on. A database, a role, or a
-- variable of libpq such as PGDATESTYLE may have set other values for this connection.
-- default_transaction_read_only is not here, because it says that the database accepts no writes.
SELECT set_config('default_transaction_isolation', 'read committed', false),
       set_config('datestyle', 'ISO, MDY', false),
       set_config('intervalstyle', 'postgres', false),
       set_config('timezone', 'UTC', false),
       -- EST is an abbreviation as well as the name of a timezone.
       set_config('timezone_abbreviations', 'Default', false),
       set_config('bytea_output', 'hex', false),
       set_config('extra_float_digits', '1', false),
       set_config('standard_conforming_strings', 'on', false),
       set_config('transform_null_equals', 'off', false),
       set_config('array_nulls', 'on', false);
