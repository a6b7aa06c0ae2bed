-- Take the lock of migrations until this session ends.
-- A session of PgBouncer would keep it, so the command refuses a connection pooler before.
SELECT pg_advisory_lock(hashtextextended('task-service migrate', 0)) AS locked;
