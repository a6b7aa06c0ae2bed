-- Wait until no other migration runs, and be the only one until this connection ends.
SELECT pg_advisory_lock(hashtextextended('flask migrate', 0));
