-- Take the lock of migrations until this transaction ends; a lock of a session would stay behind in
-- a connection of PgBouncer.
SELECT pg_advisory_xact_lock(hashtextextended('task-service migrate', 0)) AS locked;
