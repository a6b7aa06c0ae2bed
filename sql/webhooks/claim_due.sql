-- Claim the delivery that has been due for longest, past those that others are claiming.
-- Nobody else attempts it while the lease lasts; a worker that is killed gives it back by that.
WITH chosen AS MATERIALIZED (
    SELECT delivery.workspace_id, delivery.id
      FROM deliveries AS delivery
      JOIN webhooks AS webhook
        ON webhook.workspace_id = delivery.workspace_id AND webhook.id = delivery.webhook_id
     WHERE delivery.state = 'due'
       AND delivery.due_at <= now()
       AND webhook.disabled_at IS NULL
       AND (webhook.backoff_until IS NULL OR webhook.backoff_until <= now())
     ORDER BY delivery.due_at
     LIMIT 1
       FOR UPDATE OF delivery SKIP LOCKED
)
UPDATE deliveries AS delivery
   SET due_at = now() + %(lease)s::float8 * interval '1 second',
       attempts = delivery.attempts + 1
  FROM chosen, events AS event, webhooks AS webhook
 WHERE delivery.workspace_id = chosen.workspace_id
   AND delivery.id = chosen.id
   AND event.workspace_id = delivery.workspace_id
   AND event.id = delivery.event_id
   AND webhook.workspace_id = delivery.workspace_id
   AND webhook.id = delivery.webhook_id
RETURNING delivery.workspace_id,
          delivery.id,
          delivery.attempts AS number,
          webhook.id AS webhook_id,
          webhook.url,
          webhook.secret_number,
          coalesce(webhook.rotated_until > now(), false) AS rotated,
          'evt_' || replace(event.id::text, '-', '') AS message_id,
          event.body,
          extract(epoch FROM now() - event.created_at)::float8 AS age;
