-- Find the workspace of a webhook, for operators.
SELECT webhook.workspace_id, webhook.id
  FROM webhooks AS webhook
 WHERE webhook.id = %(id)s
   AND webhook.deleted_at IS NULL;
