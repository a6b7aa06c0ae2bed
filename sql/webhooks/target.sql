-- A webhook with its signing secrets, and the id and time of a test message to it.
SELECT webhook.workspace_id,
       webhook.id AS webhook_id,
       webhook.url,
       secret.secret_numbers,
       secret.key_fingerprints,
       'evt_' || replace(new_id()::text, '-', '') AS message_id,
       iso(now()) AS timestamp
  FROM webhooks AS webhook
 CROSS JOIN LATERAL signing_secrets(webhook) AS secret
 WHERE webhook.workspace_id = %(workspace_id)s::uuid
   AND webhook.id = %(id)s::uuid
   AND manages(%(user_id)s::uuid, %(workspace_id)s::uuid);
