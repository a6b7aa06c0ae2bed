-- Make a delivery due again, with the same bytes. If its webhook is disabled, the delivery waits
-- until the webhook is enabled.
UPDATE deliveries AS delivery
   SET state = 'waiting',
       due_at = now(),
       finished_at = NULL
  FROM lock_webhook(%(workspace_id)s, %(webhook_id)s, %(token_id)s) AS webhook
 WHERE delivery.workspace_id = webhook.workspace_id
   AND delivery.webhook_id = webhook.id
   AND delivery.id = %(id)s
RETURNING delivery.id, delivery_json(delivery) AS body;
