-- The keys that webhooks need but WEBHOOK_KEY lacks, each with the number of webhooks that wait for
-- it and the id of one of them.
-- Secrets that rotations have replaced are not considered: an event is sent even if their key is
-- missing.
SELECT key_fingerprint,
       count(*) AS webhooks,
       min(id::text) AS example
  FROM webhooks
 WHERE disabled_at IS NULL
   AND key_fingerprint <> ALL (%(keys)s::text[])
 GROUP BY key_fingerprint
 ORDER BY key_fingerprint;
