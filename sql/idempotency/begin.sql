-- Claim a key for this request, or return the response that is stored under it.
-- If another request with the same key is running, INSERT waits until its transaction ends. If the
-- key is new or older than a day, the row has no response, and the status is NULL: this request
-- must do the work. If the key is younger, the UPDATE writes the old values again, in order to
-- return them. "same" tells whether the stored request was the same as this one.
-- sql/schema/0010-safe-writes.sql explains the keys.
INSERT INTO idempotency_keys AS stored (workspace_id, user_id, key, fingerprint)
VALUES (
           coalesce(
               %(token_workspace_id)s,
               %(workspace_id)s::uuid,
               '00000000-0000-0000-0000-000000000000'
           ),
           %(user_id)s,
           %(key)s,
           %(fingerprint)s
       )
    ON CONFLICT (workspace_id, user_id, key) DO UPDATE
   SET (fingerprint, created_at, status, headers, body) = (
           SELECT excluded.fingerprint, now(), NULL::integer, NULL::jsonb, NULL::text
            WHERE stored.created_at < now() - interval '24 hours'
            UNION ALL
           SELECT stored.fingerprint, stored.created_at, stored.status, stored.headers, stored.body
            WHERE stored.created_at >= now() - interval '24 hours'
       )
RETURNING status,
          headers::text AS headers,
          body,
          fingerprint = %(fingerprint)s AS same;
