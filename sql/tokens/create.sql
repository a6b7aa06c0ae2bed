-- Create an API token for a user; with a workspace, only if the user is a member of it.
-- The table has only the hash of the token.
WITH person AS MATERIALIZED (
    -- Users are locked before members, see sql/functions/workspaces.sql.
    SELECT id
      FROM users
     WHERE id = %(user_id)s
       FOR KEY SHARE
), place AS MATERIALIZED (
    SELECT workspace_id
      FROM members
     WHERE workspace_id = (SELECT id FROM workspaces WHERE slug = %(workspace)s)
       AND user_id = (SELECT id FROM person)
       FOR KEY SHARE
)
INSERT INTO tokens (user_id, kind, name, scope, hash, expires_at, workspace_id)
SELECT person.id,
       'api',
       %(name)s,
       %(scope)s,
       %(hash)s,
       now_ms() + %(days)s::integer * interval '1 day',
       place.workspace_id
  FROM person
  LEFT JOIN place ON true
 WHERE %(workspace)s::text IS NULL
    OR place.workspace_id IS NOT NULL
RETURNING id;
