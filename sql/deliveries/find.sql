-- Find the workspace and the webhook of a delivery, for operators.
SELECT workspace_id, webhook_id, id
  FROM deliveries
 WHERE id = %(id)s;
