-- The keys that this process lacks although secrets in use derive from them. Each has the number of
-- webhooks that need it, and one of them. Webhooks without a fingerprint get that of the oldest
-- key, which all secrets derived from before fingerprints were stored.
WITH adopted AS (
    UPDATE webhooks AS webhook
       SET key_fingerprint = %(oldest_key)s::text
     WHERE webhook.key_fingerprint IS NULL
       AND %(oldest_key)s::text IS NOT NULL
), used AS (
    SELECT webhook.id, webhook.key_fingerprint
      FROM webhooks AS webhook
     WHERE webhook.disabled_at IS NULL
     UNION
    SELECT previous.webhook_id, previous.key_fingerprint
      FROM previous_secrets AS previous
     WHERE previous.expires_at > now()
)
SELECT used.key_fingerprint,
       count(*) AS webhooks,
       min(used.id::text) AS example
  FROM used
 WHERE used.key_fingerprint <> ALL (%(keys)s::text[])
    OR used.key_fingerprint IS NULL AND %(oldest_key)s::text IS NULL
 GROUP BY used.key_fingerprint
 ORDER BY used.key_fingerprint;
