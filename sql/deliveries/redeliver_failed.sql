-- Make the failed deliveries of a webhook due again: all of them, or only those since a time.
UPDATE deliveries AS delivery
   SET state = 'waiting',
       due_at = now(),
       finished_at = NULL
  FROM webhooks AS webhook
 WHERE webhook.id = %(id)s::uuid
   AND webhook.deleted_at IS NULL
   AND delivery.workspace_id = webhook.workspace_id
   AND delivery.webhook_id = webhook.id
   AND delivery.state = 'failed'
   AND (
           %(since)s::timestamptz IS NULL
           OR delivery.finished_at >= %(since)s::timestamptz
       )
RETURNING delivery.id;
