-- Give a webhook a new secret; the previous one signs too for 24 hours.
UPDATE webhooks AS webhook
   SET secret_number = webhook.secret_number + 1,
       rotated_until = now() + interval '24 hours'
 WHERE webhook.id = %(id)s::uuid
RETURNING webhook.id, webhook.secret_number;
