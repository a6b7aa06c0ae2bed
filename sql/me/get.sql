-- The caller: the user, the credential, the active workspace, and what is left of its limits.
-- The gate, which has counted this request, provides the numbers. The end of a window is rounded
-- up, so that a client that waits until then does not come too early.
SELECT json_build_object(
           'user', json_build_object(
               'id', account.id,
               'name', account.name,
               'email', account.email
           ),
           'scope', token.scope,
           'credential', token.kind,
           'expiresAt', iso(token.expires_at),
           'workspace', CASE WHEN workspace.id IS NOT NULL THEN json_build_object(
               'id', workspace.id,
               'name', workspace.name,
               'slug', workspace.slug,
               'plan', workspace.plan,
               'role', member.role
           ) END,
           'limits', json_build_object(
               'minute', json_build_object(
                   'limit', %(per_minute)s::integer,
                   'remaining', %(minute_left)s::integer,
                   'resetsAt', iso(to_timestamp(ceil(%(minute_ends)s::float8 * 1000) / 1000))
               ),
               'day', CASE WHEN %(per_day)s::integer IS NOT NULL THEN json_build_object(
                   'limit', %(per_day)s::integer,
                   'remaining', %(day_left)s::integer,
                   'resetsAt', iso(to_timestamp(ceil(%(day_ends)s::float8 * 1000) / 1000))
               ) END
           )
       ) AS body
  FROM tokens AS token
  JOIN users AS account ON account.id = token.user_id
  LEFT JOIN members AS member
         ON member.workspace_id = %(workspace_id)s::uuid
        AND member.user_id = account.id
  LEFT JOIN workspaces AS workspace ON workspace.id = member.workspace_id
 WHERE token.id = %(token_id)s::uuid
   AND token.user_id = %(user_id)s::uuid;
