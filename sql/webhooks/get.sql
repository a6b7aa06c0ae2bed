-- One webhook of a workspace.
SELECT row_to_json(show_webhook(webhook)) AS body, webhook.version
  FROM webhooks AS webhook
 WHERE webhook.workspace_id = %(workspace_id)s
   AND webhook.id = %(id)s
   AND webhook.deleted_at IS NULL
   AND manages(%(user_id)s, %(workspace_id)s);
