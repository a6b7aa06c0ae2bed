-- The latest deliveries of a webhook with all their attempts, newest delivery first.
SELECT delivery.id,
       event.type,
       delivery.state,
       attempt.number,
       iso(attempt.at) AS at,
       attempt.status,
       attempt.milliseconds,
       attempt.error,
       attempt.answer
  FROM webhooks AS webhook
 CROSS JOIN LATERAL (
       SELECT delivery.workspace_id, delivery.id, delivery.event_id, delivery.state
         FROM deliveries AS delivery
        WHERE delivery.workspace_id = webhook.workspace_id
          AND delivery.webhook_id = webhook.id
        ORDER BY delivery.id DESC
        LIMIT %(limit)s::integer
       ) AS delivery
  JOIN events AS event
    ON event.workspace_id = delivery.workspace_id AND event.id = delivery.event_id
  LEFT JOIN attempts AS attempt
    ON attempt.workspace_id = delivery.workspace_id AND attempt.delivery_id = delivery.id
 WHERE webhook.id = %(id)s::uuid
 ORDER BY delivery.id DESC, attempt.number;
