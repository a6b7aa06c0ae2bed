-- The live sessions of all users that were created since this time, oldest first.
SELECT token.id,
       person.email,
       iso(token.created_at) AS created_at,
       iso(token.last_used_at) AS last_used_at,
       iso(token.expires_at) AS expires_at
  FROM tokens AS token
  JOIN users AS person ON person.id = token.user_id
 WHERE token.kind = 'session'
   AND token.created_at >= %(since)s
   AND is_live(token)
 ORDER BY token.created_at, token.id;
