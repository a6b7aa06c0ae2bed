-- Disable a webhook; its due deliveries wait.
UPDATE webhooks AS webhook
   SET disabled_at = coalesce(webhook.disabled_at, now()),
       disabled_reason = coalesce(webhook.disabled_reason, 'by an operator')
 WHERE webhook.id = %(id)s::uuid
RETURNING webhook.id;
