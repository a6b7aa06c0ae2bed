-- The API tokens and sessions of a user, oldest first, including revoked and expired ones.
SELECT id,
       kind,
       scope,
       iso(created_at) AS created_at,
       iso(last_used_at) AS last_used_at,
       iso(expires_at) AS expires_at,
       iso(revoked_at) AS revoked_at,
       (SELECT slug FROM workspaces WHERE id = tokens.workspace_id) AS workspace,
       nullif(name, '') AS name
  FROM tokens
 WHERE user_id = %(user_id)s
 ORDER BY id;
