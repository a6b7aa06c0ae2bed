-- Return the caller: user, credential, active workspace, and the limits that the gate has counted.
SELECT row_to_json(me) AS body
  FROM tokens AS token
  JOIN users AS account ON account.id = token.user_id
  LEFT JOIN members AS member
         ON member.workspace_id = %(workspace_id)s
        AND member.user_id = account.id
  LEFT JOIN workspaces AS active ON active.id = member.workspace_id
 CROSS JOIN LATERAL (SELECT account.id, account.name, account.email) AS person
  LEFT JOIN LATERAL (
       SELECT active.id, active.name, active.slug, active.plan, member.role
       ) AS workspace ON workspace.id IS NOT NULL
 CROSS JOIN LATERAL (
       SELECT person AS "user",
              token.scope,
              token.kind AS credential,
              iso(token.expires_at) AS "expiresAt",
              workspace,
              %(limits)s::json AS limits
       ) AS me
 WHERE token.id = %(token_id)s
   AND token.user_id = %(user_id)s;
