-- Set the clock to a time, or move it by an interval; two NULLs set the clock right.
WITH past AS (
    DELETE FROM clock.ahead
 RETURNING ahead.by
)
INSERT INTO clock.ahead AS ahead (by)
SELECT coalesce(
           %(at)s::timestamptz - pg_catalog.now(),
           (SELECT past.by FROM past) + %(by)s::interval,
           %(by)s::interval,
           interval '0'
       )
RETURNING iso(pg_catalog.now() + ahead.by) AS now;
