-- Record the outcome of an attempt. Its delivery becomes delivered, due again or failed; its
-- webhook recovers, backs off or is disabled.
-- If the lease has expired and another process has claimed the delivery, the attempt is only added
-- to the list of attempts. If the delivery has been deleted, nothing is recorded.
WITH locked_webhook AS MATERIALIZED (
    -- Lock the webhook before its delivery, as the deletion of a webhook does, so that the two
    -- cannot deadlock.
    SELECT workspace_id, id
      FROM webhooks
     WHERE workspace_id = %(in_workspace_id)s
       AND id = %(webhook_id)s
       FOR KEY SHARE
), attempt AS (
    INSERT INTO attempts (workspace_id, delivery_id, number, status, milliseconds, error, answer)
    SELECT %(in_workspace_id)s,
           %(delivery_id)s,
           %(number)s,
           %(status)s,
           %(milliseconds)s,
           %(error)s,
           %(answer)s
      FROM locked_webhook AS webhook
      JOIN deliveries AS delivery
        ON delivery.workspace_id = webhook.workspace_id AND delivery.webhook_id = webhook.id
     WHERE delivery.id = %(delivery_id)s
        ON CONFLICT (workspace_id, delivery_id, number) DO NOTHING
), updated_delivery AS (
    UPDATE deliveries AS delivery
       SET state = CASE
               WHEN %(success)s THEN 'delivered'
               WHEN %(retry_delay)s::float8 IS NULL THEN 'failed'
               ELSE 'waiting'
           END,
           due_at = now() + coalesce(%(retry_delay)s, 0) * interval '1 second',
           finished_at = CASE
               WHEN %(success)s OR %(retry_delay)s IS NULL THEN now()
           END
      FROM locked_webhook AS webhook
     WHERE delivery.workspace_id = webhook.workspace_id
       AND delivery.webhook_id = webhook.id
       AND delivery.id = %(delivery_id)s
       AND delivery.attempts = %(number)s
       AND (
               delivery.state = 'waiting'
               -- The webhook has deselected the type during this attempt (deliveries/give_up).
               OR %(success)s AND delivery.state = 'failed'
           )
 RETURNING delivery.webhook_id
), updated_webhook AS (
    UPDATE webhooks AS webhook
       SET failing_since = CASE
               WHEN NOT %(success)s THEN coalesce(webhook.failing_since, now())
           END,
           backoff_until = CASE
               WHEN NOT %(success)s THEN now() + %(backoff)s * interval '1 second'
           END,
           (disabled_at, gap_since, disabled_reason) = (
               SELECT coalesce(webhook.disabled_at, CASE WHEN reason IS NOT NULL THEN now() END),
                      CASE
                          WHEN webhook.disabled_at IS NULL AND reason IS NOT NULL THEN now()
                          ELSE webhook.gap_since
                      END,
                      coalesce(webhook.disabled_reason, reason)
                 FROM (
                      SELECT CASE
                                 WHEN %(success)s THEN NULL
                                 WHEN %(status)s = 410
                                 THEN 'the receiver answered 410 Gone'
                                 WHEN webhook.failing_since
                                      < now() - %(disable_after)s::integer * interval '1 hour'
                                 THEN 'only failures for ' || %(disable_after)s || ' hours'
                             END AS reason
                      ) AS verdict
           )
      FROM updated_delivery
     WHERE webhook.workspace_id = %(in_workspace_id)s
       AND webhook.id = updated_delivery.webhook_id
       -- A success changes the webhook only if it was failing.
       AND (NOT %(success)s OR webhook.failing_since IS NOT NULL)
 RETURNING webhook.workspace_id, webhook.id, webhook.disabled_reason
)
SELECT webhook.disabled_reason,
       CASE
           WHEN %(success)s
           THEN catch_up(
                    webhook.workspace_id,
                    webhook.id,
                    %(backoff)s * interval '1 second'
                )
       END AS caught_up
  FROM updated_webhook AS webhook;
