-- Whether this server is a standby, which takes no writes.
SELECT pg_is_in_recovery() AS standby;
