-- Take a key for this request, or find what it was answered with; waits for a first one that still runs.
-- After a day a key is as good as new.
INSERT INTO idempotency_keys AS known (workspace_id, user_id, key, fingerprint)
VALUES (
           coalesce(%(workspace_id)s::uuid, '00000000-0000-0000-0000-000000000000'),
           %(user_id)s::uuid,
           %(key)s::text,
           %(fingerprint)s::bytea
       )
    ON CONFLICT (workspace_id, user_id, key) DO UPDATE
   SET (fingerprint, created_at, status, headers, body) = (
           SELECT excluded.fingerprint, now(), NULL::integer, NULL::jsonb, NULL::text
            WHERE known.created_at < now() - interval '24 hours'
            UNION ALL
           SELECT known.fingerprint, known.created_at, known.status, known.headers, known.body
            WHERE known.created_at >= now() - interval '24 hours'
       )
RETURNING known.status,
          known.headers::text AS headers,
          known.body,
          known.fingerprint = %(fingerprint)s::bytea AS same;
