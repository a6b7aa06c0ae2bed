-- Return the id of the server process of this connection. PgBouncer tells its clients another one.
SELECT pg_backend_pid() AS pid;
