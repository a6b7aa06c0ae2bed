-- Revoke all tokens and sessions of a user that are not revoked yet.
SELECT revoke_tokens(id) AS id
  FROM users
 WHERE lower(email) = lower(%(email)s);
