-- The tokens of a user, oldest first; a user without tokens is one row of NULLs.
SELECT token.id,
       token.kind,
       token.scope,
       iso(token.created_at) AS created,
       iso(token.last_used_at) AS last_used,
       iso(token.expires_at) AS expires,
       iso(token.revoked_at) AS revoked,
       nullif(token.name, '') AS name
  FROM users AS person
  LEFT JOIN tokens AS token ON token.user_id = person.id
 WHERE lower(person.email) = lower(%(email)s)
 ORDER BY token.id;
