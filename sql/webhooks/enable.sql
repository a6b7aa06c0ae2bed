-- Send to a webhook again, due deliveries first.
UPDATE webhooks AS webhook
   SET disabled_at = NULL,
       disabled_reason = NULL,
       failing_since = NULL,
       backoff_until = NULL
 WHERE webhook.id = %(id)s::uuid
RETURNING webhook.id;
