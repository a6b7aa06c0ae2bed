-- Create an API token for a user, with a workspace for a member of it; the table has
-- only the hash of the token.
WITH place AS MATERIALIZED (
    SELECT member.workspace_id, member.user_id
      FROM members AS member
      JOIN workspaces AS workspace ON workspace.id = member.workspace_id
     WHERE workspace.slug = %(workspace)s::text
       FOR KEY SHARE OF member
)
INSERT INTO tokens (user_id, kind, name, scope, hash, expires_at, workspace_id)
SELECT person.id,
       'api',
       %(name)s,
       %(scope)s,
       %(hash)s,
       now_ms() + %(days)s::integer * interval '1 day',
       place.workspace_id
  FROM users AS person
  LEFT JOIN place ON place.user_id = person.id
 WHERE lower(person.email) = lower(%(email)s)
   AND (%(workspace)s::text IS NULL OR place.workspace_id IS NOT NULL)
RETURNING id;
