-- Create an API token for the caller.
-- The caller's session must not have ended meanwhile, and the caller may have at most 100 live
-- tokens, the new one included. The expiry must lie in the future, and the workspace must be one of
-- the caller's.
WITH counted AS MATERIALIZED (
    -- Users are locked before members, see sql/functions/workspaces.sql.
    SELECT lock_and_count_tokens(%(user_id)s, %(session_id)s) AS tokens
), place AS MATERIALIZED (
    -- Without this lock the membership could end meanwhile, and the token would not be revoked with
    -- it.
    SELECT member.workspace_id
      FROM counted
     CROSS JOIN members AS member
     WHERE member.workspace_id = %(workspace_id)s
       AND member.user_id = %(user_id)s
       FOR KEY SHARE OF member
), asked AS MATERIALIZED (
    SELECT coalesce(%(expires_at)s::timestamptz > now(), true) AS in_future,
           %(workspace_id)s::uuid IS NULL OR EXISTS (SELECT FROM place) AS is_member,
           counted.tokens < 100 AS has_room
      FROM counted
), created AS (
    INSERT INTO tokens AS token (user_id, kind, name, scope, hash, expires_at, workspace_id)
    SELECT %(user_id)s,
           'api',
           %(name)s,
           %(scope)s,
           %(hash)s,
           %(expires_at)s,
           %(workspace_id)s
      FROM asked
     WHERE in_future
       AND is_member
       AND has_room
 RETURNING token.id, token_json(token) AS body
)
SELECT asked.in_future, asked.is_member, asked.has_room, created.id, created.body
  FROM asked
  LEFT JOIN created ON true;
