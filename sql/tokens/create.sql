-- Create an API token or a session for a user; the table has only the hash of the token.
INSERT INTO tokens (user_id, kind, name, scope, hash, expires_at)
SELECT person.id,
       %(kind)s,
       %(name)s,
       %(scope)s,
       %(hash)s,
       now_ms() + %(days)s::integer * interval '1 day'
  FROM users AS person
 WHERE lower(person.email) = lower(%(email)s)
RETURNING id;
