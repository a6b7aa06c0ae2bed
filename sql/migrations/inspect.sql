-- Find out if a development version before 1.0.0 made this database, and if it has migrations.
SELECT to_regclass('_yoyo_migration') IS NOT NULL
       AND to_regclass('schema_migrations') IS NULL AS outdated,
       to_regclass('schema_migrations') IS NOT NULL AS prepared;
