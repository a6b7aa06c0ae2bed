-- Revoke all tokens and sessions of a user that are not revoked yet.
SELECT revoked.id
  FROM users AS person
 CROSS JOIN revoke_tokens(person.id) AS revoked (id)
 WHERE lower(person.email) = lower(%(email)s);
