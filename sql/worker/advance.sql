-- Advance the time up to which the workers prune, and return it as a Unix time.
-- A running worker passes the time that it got last, plus the time that has passed on its host
-- since then. A worker that has just started passes NULL: it trusts the clock, because it may have
-- been stopped for long, except for a leap that is already known. A worker that runs once passes
-- infinity, so that the time is now().
INSERT INTO pruning_clock AS clock (until, advanced_at)
VALUES (now(), now())
    ON CONFLICT (id) DO UPDATE
   SET until = least(
           now(),
           greatest(
               clock.until,
               coalesce(
                   to_timestamp(%(until)s::float8),
                   now() - (clock.advanced_at - clock.until)
               )
           )
       ),
       advanced_at = now()
RETURNING extract(epoch FROM until)::float8 AS until;
