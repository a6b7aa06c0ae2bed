-- The process of PostgreSQL that serves this connection; PgBouncer tells clients another number.
SELECT pg_backend_pid() AS pid;
