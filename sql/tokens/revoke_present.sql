-- Revoke the tokens and sessions of a user immediately. tokens/revoke_all waits for those that are
-- being created.
UPDATE tokens
   SET revoked_at = now()
  FROM users AS person
 WHERE person.id = user_id
   AND lower(person.email) = lower(%(email)s)
   AND revoked_at IS NULL
RETURNING tokens.id;
