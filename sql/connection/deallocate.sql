-- Drop the prepared statements of a connection, after a migration has invalidated one of them.
DEALLOCATE ALL;
