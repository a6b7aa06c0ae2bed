-- Whether an earlier development version made this database, which kept its migrations elsewhere.
SELECT to_regclass('_yoyo_migration') IS NOT NULL
       AND to_regclass('schema_migrations') IS NULL AS outdated;
