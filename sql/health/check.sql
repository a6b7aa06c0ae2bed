-- Return whether the database lacks one of these migrations; a newer database may have more of
-- them.
-- The statement fails if every request would fail: if the database is read-only, lacks a table of
-- the gate, or denies this role the use of these tables. It changes no row.
WITH missing AS (
    SELECT
      FROM unnest(%(migrations)s::text[]) AS file (name)
     WHERE NOT EXISTS (
               SELECT
                 FROM schema_migrations AS migration
                WHERE migration.name = file.name
           )
), gate AS (
    INSERT INTO usage AS past (workspace_id, subject)
    SELECT person.active_workspace_id, token.kind
      FROM tokens AS token
      JOIN users AS person ON person.id = token.user_id
      JOIN workspaces AS workspace ON workspace.id = person.active_workspace_id
      JOIN plans AS plan ON plan.name = workspace.plan
     WHERE false
        ON CONFLICT (workspace_id, subject) DO UPDATE SET minute_count = past.minute_count
)
SELECT '{"status":"ok"}'::json AS body,
       EXISTS (SELECT FROM missing) AS pending;
