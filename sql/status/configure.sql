-- Let no statement of this transaction wait long for a slow database or for a lock.
SELECT set_config('statement_timeout', '20s', true),
       set_config('lock_timeout', '1s', true);
