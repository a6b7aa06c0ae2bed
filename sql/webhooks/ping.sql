-- Return a ping for a webhook, in the form of a claimed delivery. A ping is not stored.
WITH message AS MATERIALIZED (
    SELECT new_id() AS id
)
SELECT webhook.workspace_id,
       message.id,
       1 AS number,
       webhook.id AS webhook_id,
       webhook.url,
       secret.secret_numbers,
       secret.key_fingerprints,
       'evt_' || id_cursor(message.id) AS message_id,
       event_body(message.id, 'ping', webhook.workspace_id, %(user_id)s, '[]', '{}') AS body,
       0::float8 AS age
  FROM message
 CROSS JOIN webhooks AS webhook
 CROSS JOIN LATERAL signing_secrets(webhook) AS secret
 WHERE webhook.workspace_id = %(workspace_id)s
   AND webhook.id = %(id)s
   AND webhook.deleted_at IS NULL
   AND manages(%(user_id)s, %(workspace_id)s);
