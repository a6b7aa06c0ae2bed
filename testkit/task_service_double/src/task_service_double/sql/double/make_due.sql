-- Make all waiting deliveries due now, except deliveries whose attempt has no outcome yet.
WITH awake AS (
    UPDATE webhooks
       SET backoff_until = NULL
)
UPDATE deliveries AS delivery
   SET due_at = now()
 WHERE delivery.state = 'waiting'
   AND delivery.due_at > now()
   AND EXISTS (
       SELECT FROM attempts AS attempt
        WHERE attempt.workspace_id = delivery.workspace_id
          AND attempt.delivery_id = delivery.id
          AND attempt.number = delivery.attempts
       )
RETURNING delivery.id;
