-- The migrations that were applied to this database, each with the SHA-256 of its text.
-- to_jsonb() makes a missing column NULL: builds before 1.0.0 created the table without sha256.
SELECT name,
       to_jsonb(migration) ->> 'sha256' AS sha256
  FROM schema_migrations AS migration;
