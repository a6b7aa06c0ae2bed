-- The API tokens and sessions of a user, oldest first, including revoked and expired ones.
SELECT token.id,
       token.kind,
       token.scope,
       iso(token.created_at) AS created_at,
       iso(token.last_used_at) AS last_used_at,
       iso(token.expires_at) AS expires_at,
       iso(token.revoked_at) AS revoked_at,
       workspace.slug AS workspace,
       nullif(token.name, '') AS name
  FROM tokens AS token
  LEFT JOIN workspaces AS workspace ON workspace.id = token.workspace_id
 WHERE token.user_id = %(user_id)s
 ORDER BY token.id;
