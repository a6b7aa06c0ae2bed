-- Enable a webhook again; deliveries that waited are due first.
WITH updated_webhook AS (
    UPDATE webhooks AS webhook
       SET disabled_at = NULL,
           disabled_reason = NULL,
           failing_since = NULL,
           backoff_until = NULL
     WHERE webhook.id = %(id)s::uuid
 RETURNING webhook.workspace_id, webhook.id
)
SELECT webhook.id,
       catch_up(webhook.workspace_id, webhook.id, interval '0') AS caught_up
  FROM updated_webhook AS webhook;
