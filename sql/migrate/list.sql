-- The migrations that were applied to this database, each with the SHA-256 of its text.
-- The column is read by its name, because a build before 1.0.0 made the table without it.
SELECT migration.name,
       to_jsonb(migration) ->> 'sha256' AS sha256
  FROM schema_migrations AS migration;
