-- Give up the waiting deliveries of the types that a webhook no longer gets, even a delivery that a
-- process is attempting. Such an attempt becomes delivered if it succeeds (webhooks/record).
-- This runs in the transaction of webhooks/update, which has the workspace alone, so that no new
-- event adds others.
UPDATE deliveries AS delivery
   SET state = 'failed',
       finished_at = now()
  FROM webhooks AS webhook
  JOIN events AS event ON event.workspace_id = webhook.workspace_id
 WHERE webhook.workspace_id = %(workspace_id)s
   AND webhook.id = %(id)s
   AND webhook.events <> '{}'
   AND event.type <> ALL (webhook.events)
   AND delivery.workspace_id = webhook.workspace_id
   AND delivery.webhook_id = webhook.id
   AND delivery.event_id = event.id
   AND delivery.state = 'waiting';
