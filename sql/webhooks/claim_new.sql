-- Claim one delivery of the events that this request has created, unless its webhook is failing.
-- Nobody else attempts it while the lease lasts.
WITH candidate AS MATERIALIZED (
    SELECT delivery.workspace_id, delivery.id
      FROM deliveries AS delivery
      JOIN webhooks AS webhook
        ON webhook.workspace_id = delivery.workspace_id AND webhook.id = delivery.webhook_id
      JOIN members AS member ON member.workspace_id = delivery.workspace_id
     WHERE member.user_id = %(user_id)s::uuid
       AND delivery.event_id = ANY (%(event_ids)s::uuid[])
       AND delivery.state = 'due'
       AND delivery.attempts = 0
       AND webhook.disabled_at IS NULL
       AND webhook.failing_since IS NULL
     ORDER BY delivery.id
     LIMIT 1
       FOR UPDATE OF delivery SKIP LOCKED
)
UPDATE deliveries AS delivery
   SET due_at = now() + %(lease)s::float8 * interval '1 second',
       attempts = delivery.attempts + 1
  FROM candidate, events AS event, webhooks AS webhook
 WHERE delivery.workspace_id = candidate.workspace_id
   AND delivery.id = candidate.id
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
