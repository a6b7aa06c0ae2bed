-- Send to a webhook again, beginning with what has waited.
UPDATE webhooks AS webhook
   SET disabled_at = NULL,
       disabled_because = NULL,
       failing_since = NULL,
       resting_until = NULL
 WHERE webhook.id = %(id)s::uuid
RETURNING webhook.id;
