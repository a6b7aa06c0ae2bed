-- Make the failed deliveries of a webhook due again: all of them, or only those since a time. A
-- delivery of a type that the webhook no longer gets stays failed.
-- The lock of the webhook makes the statement wait for a change of its events.
WITH webhook AS MATERIALIZED (
    SELECT workspace_id, id, events
      FROM webhooks
     WHERE id = %(id)s
       AND deleted_at IS NULL
       FOR KEY SHARE
)
UPDATE deliveries AS delivery
   SET state = 'waiting',
       due_at = now(),
       finished_at = NULL
  FROM webhook
  JOIN events AS event ON event.workspace_id = webhook.workspace_id
 WHERE delivery.workspace_id = webhook.workspace_id
   AND delivery.webhook_id = webhook.id
   AND delivery.event_id = event.id
   AND (webhook.events = '{}' OR event.type = ANY (webhook.events))
   AND delivery.state = 'failed'
   AND (
           %(since)s::timestamptz IS NULL
           OR delivery.finished_at >= %(since)s
       )
RETURNING delivery.id;
