-- Wait until no other file gives ids to meetings, and be the only one until this transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('ids of meetings', 0)) AS locked;
