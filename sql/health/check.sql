-- Return whether the database lacks one of these migrations; a newer database may have more of
-- them.
-- The statement changes no row, but it fails if the database is read-only.
WITH nothing AS (
    INSERT INTO usage (workspace_id, subject)
    SELECT workspace_id, subject FROM usage WHERE false
)
SELECT NOT %(migrations)s::text[] <@ ARRAY(SELECT name FROM schema_migrations) AS pending;
