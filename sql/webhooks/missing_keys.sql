-- The keys that webhooks need but WEBHOOK_KEY lacks, each with the number of webhooks that wait for
-- it and the id of one of them.
-- Secrets that rotations have replaced are not considered: an event is sent even if their key is
-- missing.
SELECT webhook.key_fingerprint,
       count(*) AS webhooks,
       min(webhook.id::text) AS example
  FROM webhooks AS webhook
 WHERE webhook.disabled_at IS NULL
   AND webhook.key_fingerprint <> ALL (%(keys)s::text[])
 GROUP BY webhook.key_fingerprint
 ORDER BY webhook.key_fingerprint;
