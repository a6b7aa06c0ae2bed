-- Update statistics and visibility, as after a quiet hour, so that no autovacuum starts during a
-- measurement.
VACUUM (ANALYZE);
