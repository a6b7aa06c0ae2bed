-- Create an API token for the caller, who has fewer than 100 live ones and a session that has not
-- ended meanwhile; the token expires in the future.
-- The table has only the hash of the token.
WITH asked AS MATERIALIZED (
    SELECT coalesce(%(expires_at)s::timestamptz > now(), true) AS in_future,
           lock_and_count_tokens(
               %(user_id)s::uuid, %(session_id)s::uuid
           ) < 100 AS has_room
), created AS (
    INSERT INTO tokens AS token (user_id, kind, name, scope, hash, expires_at)
    SELECT person.id,
           'api',
           %(name)s::text,
           %(scope)s::text,
           %(hash)s::bytea,
           %(expires_at)s::timestamptz
      FROM asked
     CROSS JOIN users AS person
     WHERE person.id = %(user_id)s::uuid
       AND in_future
       AND has_room
 RETURNING token.id, token_json(token) AS body
)
SELECT asked.in_future, asked.has_room, created.id, created.body
  FROM asked
  LEFT JOIN created ON true;
