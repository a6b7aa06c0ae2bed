-- Send a webhook nothing more; what is due for it waits.
UPDATE webhooks AS webhook
   SET disabled_at = coalesce(webhook.disabled_at, now()),
       disabled_reason = coalesce(webhook.disabled_reason, 'by an operator')
 WHERE webhook.id = %(id)s::uuid
RETURNING webhook.id;
