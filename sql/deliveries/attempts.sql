-- The latest deliveries with all their attempts, newest delivery first.
-- The statement finds the deliveries of a webhook, the deliveries of events about one resource, or,
-- with both ids, the deliveries to which both apply.
WITH latest AS MATERIALIZED (
    SELECT delivery.workspace_id,
           delivery.id,
           delivery.webhook_id,
           delivery.state,
           delivery.due_at,
           event.type,
           event.body::json #>> '{data,id}' AS about
      FROM deliveries AS delivery
      JOIN events AS event
        ON event.workspace_id = delivery.workspace_id AND event.id = delivery.event_id
     WHERE (
               %(id)s::uuid IS NULL
               OR (delivery.workspace_id, delivery.webhook_id) = (
                      SELECT workspace_id, id
                        FROM webhooks
                       WHERE id = %(id)s
                  )
           )
       AND (
               %(about)s::text IS NULL
               OR event.body::json #>> '{data,id}' = %(about)s
           )
     ORDER BY delivery.id DESC
     LIMIT %(limit)s::integer
)
SELECT delivery.id,
       delivery.type,
       delivery.state,
       attempt.number,
       iso(attempt.at) AS at,
       attempt.status,
       attempt.milliseconds,
       attempt.error,
       attempt.answer,
       CASE
           WHEN delivery.state = 'waiting' AND webhook.disabled_at IS NULL
           THEN iso(greatest(delivery.due_at, webhook.backoff_until))
       END AS next_attempt_at,
       delivery.webhook_id,
       delivery.about
  FROM latest AS delivery
  JOIN webhooks AS webhook
    ON webhook.workspace_id = delivery.workspace_id AND webhook.id = delivery.webhook_id
  LEFT JOIN attempts AS attempt
    ON attempt.workspace_id = delivery.workspace_id AND attempt.delivery_id = delivery.id
 ORDER BY delivery.id DESC, attempt.number;
