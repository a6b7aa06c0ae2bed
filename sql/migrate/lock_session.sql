-- Take the lock for migrations until this session ends.
-- PgBouncer would keep the session and so the lock; the command has refused a connection pooler
-- before.
SELECT pg_advisory_lock(hashtextextended('task-service migrate', 0));
