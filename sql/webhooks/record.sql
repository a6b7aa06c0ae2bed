-- Write down what came of an attempt: the delivery is done, due again, or given up; the webhook is well,
-- failing, or disabled. An attempt that outlived its lease changes nothing but the list of attempts.
WITH attempt AS (
    INSERT INTO attempts (workspace_id, delivery_id, number, status, milliseconds, error, answer)
    VALUES (
               %(in_workspace_id)s::uuid,
               %(delivery_id)s::uuid,
               %(number)s::integer,
               %(status)s::integer,
               %(milliseconds)s::integer,
               %(error)s::text,
               %(answer)s::text
           )
        ON CONFLICT (workspace_id, delivery_id, number) DO NOTHING
), settled AS (
    UPDATE deliveries AS delivery
       SET state = CASE
               WHEN %(success)s::boolean THEN 'delivered'
               WHEN %(retry_delay)s::float8 IS NULL THEN 'failed'
               ELSE 'due'
           END,
           due_at = now() + coalesce(%(retry_delay)s::float8, 0) * interval '1 second',
           finished_at = CASE
               WHEN %(success)s::boolean OR %(retry_delay)s::float8 IS NULL THEN now()
           END
     WHERE delivery.workspace_id = %(in_workspace_id)s::uuid
       AND delivery.id = %(delivery_id)s::uuid
       AND delivery.attempts = %(number)s::integer
       AND delivery.state = 'due'
 RETURNING delivery.workspace_id, delivery.webhook_id
), judged AS (
    UPDATE webhooks AS webhook
       SET failing_since = CASE
               WHEN NOT %(success)s::boolean THEN coalesce(webhook.failing_since, now())
           END,
           backoff_until = CASE
               WHEN NOT %(success)s::boolean THEN now() + %(backoff)s::float8 * interval '1 second'
           END,
           disabled_at = CASE
               WHEN verdict.because IS NOT NULL THEN coalesce(webhook.disabled_at, now())
               ELSE webhook.disabled_at
           END,
           disabled_reason = coalesce(webhook.disabled_reason, verdict.because)
      FROM settled
     CROSS JOIN LATERAL (
           SELECT CASE
                      WHEN %(success)s::boolean THEN NULL
                      WHEN %(status)s::integer = 410 THEN 'the receiver answered 410 Gone'
                      WHEN past.failing_since < now() - %(disable_after)s::integer * interval '1 hour'
                      THEN 'nothing but failures for ' || %(disable_after)s::integer || ' hours'
                  END AS because
             FROM webhooks AS past
            WHERE past.workspace_id = %(in_workspace_id)s::uuid
              AND past.id = settled.webhook_id
           ) AS verdict
     WHERE webhook.workspace_id = %(in_workspace_id)s::uuid
       AND webhook.id = settled.webhook_id
       AND (NOT %(success)s::boolean OR webhook.failing_since IS NOT NULL)
)
SELECT count(*) AS settled FROM settled;
