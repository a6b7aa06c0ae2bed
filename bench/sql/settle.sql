-- Statistics and visibility as they are after a quiet hour, so that no autovacuum starts in the middle.
VACUUM (ANALYZE);
