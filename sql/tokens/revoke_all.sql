-- Revoke all tokens and sessions of a user that are not revoked yet.
UPDATE tokens AS token
   SET revoked_at = now()
  FROM users AS person
 WHERE person.id = token.user_id
   AND lower(person.email) = lower(%(email)s)
   AND token.revoked_at IS NULL
RETURNING token.id;
