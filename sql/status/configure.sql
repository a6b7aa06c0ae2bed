-- Let no statement of the command status wait long for a database in trouble, or for a lock.
SELECT set_config('statement_timeout', '20s', false) AS statement,
       set_config('lock_timeout', '1s', false) AS lock;
