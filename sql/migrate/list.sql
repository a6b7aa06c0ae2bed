-- The migrations that were applied to this database.
SELECT name FROM schema_migrations;
