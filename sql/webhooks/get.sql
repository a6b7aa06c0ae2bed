-- One webhook of a workspace.
SELECT row_to_json(show_webhook(webhook)) AS body, version
  FROM webhooks AS webhook
 WHERE workspace_id = %(workspace_id)s
   AND id = %(id)s
   AND deleted_at IS NULL
   AND manages(%(user_id)s, %(workspace_id)s);
