-- After a successful ping, make the waiting deliveries due now. A disabled webhook stays disabled.
UPDATE webhooks AS webhook
   SET failing_since = NULL,
       backoff_until = NULL
  FROM lock_webhook(%(workspace_id)s, %(id)s, %(token_id)s) AS locked
 WHERE webhook.workspace_id = locked.workspace_id
   AND webhook.id = locked.id
   AND webhook.disabled_at IS NULL
RETURNING catch_up(webhook.workspace_id, webhook.id, interval '0');
