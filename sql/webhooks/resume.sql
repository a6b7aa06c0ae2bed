-- After a successful ping, make the waiting deliveries due now. A disabled webhook stays disabled.
UPDATE webhooks AS webhook
   SET failing_since = NULL,
       backoff_until = NULL
 WHERE webhook.workspace_id = %(workspace_id)s
   AND webhook.id = %(id)s
   AND webhook.disabled_at IS NULL
   AND manages(%(user_id)s, %(workspace_id)s)
RETURNING catch_up(webhook.workspace_id, webhook.id, interval '0');
