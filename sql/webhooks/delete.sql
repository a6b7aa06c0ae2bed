-- Delete a webhook with its deliveries.
DELETE FROM webhooks AS webhook
 WHERE webhook.id = %(id)s::uuid
RETURNING webhook.id;
