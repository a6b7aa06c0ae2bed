-- Find the workspace of a webhook, for operators.
SELECT workspace_id, id
  FROM webhooks
 WHERE id = %(id)s
   AND deleted_at IS NULL;
