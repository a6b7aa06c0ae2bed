-- Find the workspace and the webhook of a delivery, for operators.
SELECT delivery.workspace_id, delivery.webhook_id, delivery.id
  FROM deliveries AS delivery
 WHERE delivery.id = %(id)s;
