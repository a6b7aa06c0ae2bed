-- One delivery of a webhook, with the body of its event.
SELECT json_join(delivery_json(delivery), row_to_json(more)) AS body
  FROM deliveries AS delivery
  JOIN events AS event
    ON event.workspace_id = delivery.workspace_id AND event.id = delivery.event_id
 CROSS JOIN LATERAL (SELECT event.body) AS more
 WHERE delivery.workspace_id = %(workspace_id)s
   AND delivery.webhook_id = %(webhook_id)s
   AND delivery.id = %(id)s
   AND manages_webhook(%(user_id)s, %(workspace_id)s, %(webhook_id)s);
