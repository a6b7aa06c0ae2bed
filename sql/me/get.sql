-- Return the caller: user, credential, active workspace and remaining limits.
-- The gate has counted this request and provides the numbers. The end of a window is rounded up, so
-- that a client that waits until then does not come too early.
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
       SELECT %(per_minute)s::integer AS "limit",
              %(minute_left)s::integer AS "remaining",
              iso(to_timestamp(ceil(%(minute_ends)s::float8 * 1000) / 1000)) AS "resetsAt"
       ) AS minute
  LEFT JOIN LATERAL (
       SELECT %(per_day)s::integer AS "limit",
              %(day_left)s::integer AS "remaining",
              iso(to_timestamp(ceil(%(day_ends)s::float8 * 1000) / 1000)) AS "resetsAt"
       ) AS day ON day."limit" IS NOT NULL
 CROSS JOIN LATERAL (SELECT minute, day) AS limits
 CROSS JOIN LATERAL (
       SELECT person AS "user",
              token.scope,
              token.kind AS credential,
              iso(token.expires_at) AS "expiresAt",
              workspace,
              limits
       ) AS me
 WHERE token.id = %(token_id)s
   AND token.user_id = %(user_id)s;
