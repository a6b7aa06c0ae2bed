-- Forget the prepared statements of a connection, after a migration has made one of them invalid.
DEALLOCATE ALL;
