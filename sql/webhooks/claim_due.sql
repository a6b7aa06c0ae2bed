-- Claim the oldest due delivery of the next webhook, for the worker. Webhooks take turns in the
-- order of their ids.
-- The statement skips workspaces that already have enough attempts in flight, and webhooks whose
-- secret derives from a key that this process does not have.
-- The claim is a lease, see claim_delivery() in sql/functions/webhooks.sql.
WITH RECURSIVE waiting (workspace_id, webhook_id) AS (
    SELECT %(after_workspace_id)s::uuid, %(after_webhook_id)s::uuid
     UNION ALL
    -- Each webhook costs one step in the index, however many deliveries wait for it.
    SELECT next.workspace_id, next.webhook_id
      FROM waiting
     CROSS JOIN LATERAL (
           SELECT workspace_id, webhook_id
             FROM deliveries
            WHERE state = 'waiting'
              AND (workspace_id, webhook_id)
                  > (waiting.workspace_id, waiting.webhook_id)
            ORDER BY workspace_id, webhook_id
            LIMIT 1
           ) AS next
), candidate AS MATERIALIZED (
    SELECT oldest.workspace_id, oldest.id
      FROM waiting
     CROSS JOIN LATERAL (
           SELECT workspace_id, id
             FROM webhooks
            WHERE workspace_id = waiting.workspace_id
              AND id = waiting.webhook_id
              AND disabled_at IS NULL
              AND key_fingerprint = ANY (%(keys)s::text[])
              AND (backoff_until IS NULL OR backoff_until <= now())
            -- LIMIT keeps the planner from reading the deliveries first.
            LIMIT 1
           ) AS webhook
     CROSS JOIN LATERAL (
           SELECT workspace_id, id
             FROM deliveries
            WHERE workspace_id = webhook.workspace_id
              AND webhook_id = webhook.id
              AND state = 'waiting'
              AND due_at <= now()
            ORDER BY due_at
            LIMIT 1
              FOR UPDATE SKIP LOCKED
           ) AS oldest
     WHERE waiting.webhook_id <> %(after_webhook_id)s
       AND waiting.workspace_id <> ALL (%(busy)s::uuid[])
     LIMIT 1
)
SELECT claimed.*
  FROM candidate
 CROSS JOIN LATERAL claim_delivery(candidate.workspace_id, candidate.id, %(lease)s) AS claimed;
