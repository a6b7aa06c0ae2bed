-- The keys that WEBHOOK_KEY does not list although webhooks need them: how many webhooks wait for
-- each, and one of them. A secret that a rotation has replaced delays no event, with or without its
-- key.
SELECT webhook.key_fingerprint,
       count(*) AS webhooks,
       min(webhook.id::text) AS example
  FROM webhooks AS webhook
 WHERE webhook.disabled_at IS NULL
   AND webhook.key_fingerprint <> ALL (%(keys)s::text[])
 GROUP BY webhook.key_fingerprint
 ORDER BY webhook.key_fingerprint;
