-- Set the clock of the test double to a time. NULL sets it to the real time.
WITH past AS (
    DELETE FROM clock.ahead
)
INSERT INTO clock.ahead AS ahead (by)
SELECT coalesce(%(at)s::timestamptz - pg_catalog.now(), interval '0')
RETURNING iso(pg_catalog.now() + ahead.by) AS now;
