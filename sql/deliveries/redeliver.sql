-- Make a delivery due again, with the same bytes. If its webhook is disabled, the delivery waits
-- until the webhook is enabled.
UPDATE deliveries AS delivery
   SET state = 'waiting',
       due_at = now(),
       finished_at = NULL
 WHERE workspace_id = %(workspace_id)s
   AND webhook_id = %(webhook_id)s
   AND id = %(id)s
   AND manages_webhook(%(user_id)s, %(workspace_id)s, %(webhook_id)s)
RETURNING id, delivery_json(delivery) AS body;
