-- Give up the waiting deliveries of the types that a webhook will no longer get, even a delivery
-- that a process is attempting. Such an attempt becomes delivered if it succeeds (webhooks/record).
-- The statement reads the deliveries after an id, up to a limit if there is one. It returns the
-- id after which the next run goes on, or no row after the last one.
-- The lock of the webhook comes first, as in webhooks/record. In the transaction of webhooks/update
-- it also keeps announce() from adding others.
WITH webhook AS MATERIALIZED (
    SELECT webhook.workspace_id, webhook.id
      FROM webhooks AS webhook
     WHERE webhook.workspace_id = %(workspace_id)s::uuid
       AND webhook.id = %(id)s::uuid
       AND webhook.deleted_at IS NULL
       AND manages(%(user_id)s::uuid, %(workspace_id)s::uuid)
       FOR UPDATE
), waiting AS MATERIALIZED (
    SELECT delivery.workspace_id, delivery.id, delivery.event_id
      FROM webhook
      JOIN deliveries AS delivery
        ON delivery.workspace_id = webhook.workspace_id AND delivery.webhook_id = webhook.id
     -- With pairs, only deliveries_by_state provides the order, as in deliveries/list.
     WHERE (delivery.state, delivery.id) > ('waiting', %(after_id)s::uuid)
       AND (delivery.state, delivery.id) <= ('waiting', 'ffffffff-ffff-ffff-ffff-ffffffffffff')
     ORDER BY delivery.state, delivery.id
     LIMIT %(limit)s::integer
), given_up AS (
    -- With an array and LIMIT, PostgreSQL looks up each row instead of hashing the whole tables.
    UPDATE deliveries AS delivery
       SET state = 'failed',
           finished_at = now()
     WHERE delivery.workspace_id = %(workspace_id)s::uuid
       AND delivery.state = 'waiting'
       AND delivery.id = ANY (
               ARRAY(
                   SELECT waiting.id
                     FROM waiting
                    CROSS JOIN LATERAL (
                          SELECT event.type
                            FROM events AS event
                           WHERE event.workspace_id = waiting.workspace_id
                             AND event.id = waiting.event_id
                           LIMIT 1
                          ) AS event
                    WHERE event.type <> ALL (%(events)s::text[])
               )
           )
)
SELECT waiting.id
  FROM waiting
 WHERE %(limit)s::integer IS NOT NULL
 ORDER BY waiting.id
OFFSET %(limit)s::integer - 1;
