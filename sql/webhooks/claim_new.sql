-- Claim one delivery of the events that this request has created.
-- Webhooks that are failing are left to the worker, and so are webhooks whose secret derives from a
-- key that this process does not have. The claim is a lease, see
-- claim_delivery().
WITH candidate AS MATERIALIZED (
    SELECT delivery.workspace_id, delivery.id
      FROM deliveries AS delivery
      JOIN webhooks AS webhook
        ON webhook.workspace_id = delivery.workspace_id AND webhook.id = delivery.webhook_id
      JOIN members AS member ON member.workspace_id = delivery.workspace_id
     WHERE member.user_id = %(user_id)s
       AND delivery.event_id = ANY (%(event_ids)s::uuid[])
       AND delivery.state = 'waiting'
       AND delivery.attempts = 0
       AND webhook.disabled_at IS NULL
       AND webhook.key_fingerprint = ANY (%(keys)s::text[])
       AND webhook.failing_since IS NULL
     ORDER BY delivery.id
     LIMIT 1
       FOR UPDATE OF delivery SKIP LOCKED
)
SELECT claimed.*
  FROM candidate
 CROSS JOIN LATERAL claim_delivery(candidate.workspace_id, candidate.id, %(lease)s) AS claimed;
