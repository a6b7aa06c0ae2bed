-- The keys that WEBHOOK_KEY does not list: how many webhooks wait for each, and one of them.
-- Unlike webhooks/missing_keys, this statement writes nothing: it runs on a standby too.
SELECT webhook.key_fingerprint,
       count(*) AS webhooks,
       min(webhook.id::text) AS example
  FROM webhooks AS webhook
 WHERE webhook.disabled_at IS NULL
   AND webhook.key_fingerprint <> ALL (%(keys)s::text[])
 GROUP BY webhook.key_fingerprint
 ORDER BY webhook.key_fingerprint;
