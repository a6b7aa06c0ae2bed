-- Return whether the database lacks one of these migrations; a newer database may have more of
-- them.
-- The statement changes no row, but it fails if the database is read-only.
WITH missing AS (
    SELECT
      FROM unnest(%(migrations)s::text[]) AS file (name)
     WHERE NOT EXISTS (
               SELECT
                 FROM schema_migrations AS migration
                WHERE migration.name = file.name
           )
), nothing AS (
    INSERT INTO usage (workspace_id, subject)
    SELECT workspace_id, subject FROM usage WHERE false
)
SELECT '{"status":"ok"}'::json AS body,
       EXISTS (SELECT FROM missing) AS pending;
