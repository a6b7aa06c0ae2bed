-- Return whether the database lacks one of these migrations, and whether a newer release has added
-- others.
-- The statement changes no row, but it fails if the database is read-only.
WITH nothing AS (
    INSERT INTO usage (workspace_id, subject)
    SELECT workspace_id, subject FROM usage WHERE false
)
SELECT NOT %(migrations)s::text[] <@ names AS pending,
       NOT names <@ %(migrations)s::text[] AS newer
  FROM (SELECT ARRAY(SELECT name FROM schema_migrations) AS names) AS applied;
