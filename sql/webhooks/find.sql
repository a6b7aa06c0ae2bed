-- The workspace and the URL of a webhook, for operators.
SELECT webhook.workspace_id, webhook.id, webhook.url
  FROM webhooks AS webhook
 WHERE webhook.id = %(id)s::uuid;
