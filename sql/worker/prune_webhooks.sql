-- Delete the next batch of deliveries of a deleted webhook, with their attempts. When no delivery
-- is left, delete the webhook.
-- Another worker that prunes at the same time takes another webhook.
WITH webhook AS MATERIALIZED (
    SELECT workspace_id, id
      FROM webhooks
     WHERE deleted_at IS NOT NULL
     ORDER BY workspace_id, id
     LIMIT 1
       FOR UPDATE SKIP LOCKED
), batch AS MATERIALIZED (
    SELECT delivery.workspace_id, delivery.id
      FROM webhook
     CROSS JOIN LATERAL (
           SELECT delivery.workspace_id, delivery.id
             FROM deliveries AS delivery
            WHERE delivery.workspace_id = webhook.workspace_id
              AND delivery.webhook_id = webhook.id
            LIMIT 1000
              FOR UPDATE
           ) AS delivery
), deleted_deliveries AS (
    DELETE FROM deliveries AS delivery
     USING batch
     WHERE delivery.workspace_id = batch.workspace_id
       AND delivery.id = batch.id
), deleted_webhook AS (
    DELETE FROM webhooks AS last
     USING webhook
     WHERE last.workspace_id = webhook.workspace_id
       AND last.id = webhook.id
       AND NOT EXISTS (SELECT FROM batch)
)
-- If the batch is empty, the webhook itself is the deleted row.
SELECT greatest((SELECT count(*) FROM batch), 1) AS deleted,
       webhook.id::text AS next
  FROM webhook;
