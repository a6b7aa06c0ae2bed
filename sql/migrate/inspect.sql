-- Find out if this database has a table of migrations.
SELECT to_regclass('schema_migrations') IS NOT NULL AS prepared;
