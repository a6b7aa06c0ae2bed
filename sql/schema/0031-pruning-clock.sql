-- The time up to which the workers prune.

-- If the clock of PostgreSQL leaps ahead, all rows seem to be old at once, and the worker would
-- delete the events and Idempotency-Keys that clients rely on. So this time advances only as fast
-- as time passes on the hosts of the workers. While the clock is right, it is the present time.
-- The table has one row, which the first worker inserts; sql/worker/advance.sql advances it.
CREATE TABLE pruning_clock (
    id boolean PRIMARY KEY DEFAULT true,
    until timestamptz NOT NULL,
    -- When a worker last advanced the time. The difference is how far the clock has leapt.
    advanced_at timestamptz NOT NULL
) WITH (fillfactor = 50);
