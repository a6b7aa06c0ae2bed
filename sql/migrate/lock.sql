-- Take the lock for migrations until this transaction ends.
-- A lock of a session would not do here: behind PgBouncer it would stay in the server's connection.
SELECT pg_advisory_xact_lock(hashtextextended('task-service migrate', 0));
