-- One webhook, for a test message to it.
SELECT webhook.workspace_id,
       webhook.id AS webhook_id,
       webhook.url,
       webhook.secret_number,
       coalesce(webhook.rotated_until > now(), false) AS rotated,
       'evt_' || replace(new_id()::text, '-', '') AS message_id,
       iso(now()) AS timestamp
  FROM webhooks AS webhook
 WHERE webhook.id = %(id)s::uuid;
