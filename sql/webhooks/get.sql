-- One webhook, for a test message to it.
SELECT webhook.workspace_id,
       webhook.id AS webhook_id,
       webhook.url,
       secret.secret_numbers,
       secret.key_fingerprints,
       'evt_' || replace(new_id()::text, '-', '') AS message_id,
       iso(now()) AS timestamp
  FROM webhooks AS webhook
 CROSS JOIN LATERAL signing_secrets(webhook) AS secret
 WHERE webhook.id = %(id)s::uuid;
