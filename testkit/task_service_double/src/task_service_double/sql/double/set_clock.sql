-- Set the clock to a time; NULL sets the clock right.
WITH past AS (
    DELETE FROM clock.ahead
)
INSERT INTO clock.ahead AS ahead (by)
SELECT coalesce(%(at)s::timestamptz - pg_catalog.now(), interval '0')
RETURNING iso(pg_catalog.now() + ahead.by) AS now;
