-- Create a session for a user who is not deactivated. A name replaces the user's present name; NULL
-- keeps it. Without an expiry in the future, no session is created.
-- The lock on the user waits for a deactivation that is running. Without the lock, the deactivation
-- could not see, and so would not revoke, a session that is created meanwhile. NO KEY UPDATE is the
-- lock that a change of the name needs. With a weaker lock first, two new sessions of one user
-- could each wait for the other.
WITH asked AS MATERIALIZED (
    SELECT id,
           coalesce(%(name)s, name) AS name,
           email,
           coalesce(
               %(expires_at)s::timestamptz, now_ms() + %(days)s::integer * interval '1 day'
           ) AS expires_at
      FROM users
     WHERE id = %(user_id)s
       AND deactivated_at IS NULL
       FOR NO KEY UPDATE
), created AS (
    INSERT INTO tokens (user_id, kind, hash, expires_at)
    SELECT id, 'session', %(hash)s, expires_at
      FROM asked
     WHERE expires_at > now()
 RETURNING id, user_id
), renamed AS (
    UPDATE users AS person
       SET name = asked.name
      FROM asked
      JOIN created ON created.user_id = asked.id
     WHERE person.id = asked.id
       AND person.name <> asked.name
)
SELECT created.id, row_to_json(session) AS body
  FROM asked
  LEFT JOIN created ON true
 CROSS JOIN LATERAL (SELECT asked.id, asked.name, asked.email) AS person
 CROSS JOIN LATERAL (
       SELECT iso(asked.expires_at) AS "expiresAt", person AS "user"
       ) AS session;
