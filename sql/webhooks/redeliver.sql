-- Have a delivery attempted once more, with the same bytes.
UPDATE deliveries AS delivery
   SET state = CASE WHEN webhook.disabled_at IS NULL THEN 'due' ELSE 'paused' END,
       due_at = now(),
       finished_at = NULL
  FROM webhooks AS webhook
 WHERE delivery.id = %(id)s::uuid
   AND webhook.workspace_id = delivery.workspace_id
   AND webhook.id = delivery.webhook_id
RETURNING delivery.id;
