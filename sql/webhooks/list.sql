-- The webhooks of a workspace with their state, their due deliveries and their last attempt.
SELECT webhook.id,
       CASE
           WHEN webhook.disabled_at IS NOT NULL THEN 'disabled'
           WHEN webhook.failing_since IS NOT NULL THEN 'failing'
           ELSE 'enabled'
       END AS state,
       webhook.url,
       CASE WHEN webhook.events = '{}' THEN '{all}' ELSE webhook.events END AS events,
       iso(webhook.failing_since) AS failing_since,
       webhook.disabled_reason,
       due.waiting,
       CASE
           WHEN webhook.disabled_at IS NULL AND due.waiting > 0
           THEN iso(greatest(due.due_at, webhook.backoff_until))
       END AS next_attempt_at,
       CASE
           WHEN webhook.backoff_until > now() THEN iso(webhook.backoff_until)
       END AS backoff_until,
       iso(last_attempt.at) AS last_attempt_at,
       coalesce(last_attempt.status::text, last_attempt.error) AS last_status
  FROM webhooks AS webhook
  JOIN workspaces AS workspace ON workspace.id = webhook.workspace_id
 CROSS JOIN LATERAL (
       SELECT count(*) AS waiting, min(delivery.due_at) AS due_at
         FROM deliveries AS delivery
        WHERE delivery.workspace_id = webhook.workspace_id
          AND delivery.webhook_id = webhook.id
          AND delivery.state = 'due'
       ) AS due
  LEFT JOIN LATERAL (
       SELECT attempt.at, attempt.status, attempt.error
         FROM deliveries AS delivery
         JOIN attempts AS attempt
           ON attempt.workspace_id = delivery.workspace_id AND attempt.delivery_id = delivery.id
        WHERE delivery.workspace_id = webhook.workspace_id
          AND delivery.webhook_id = webhook.id
        ORDER BY attempt.at DESC
        LIMIT 1
       ) AS last_attempt ON true
 WHERE workspace.slug = %(slug)s
 ORDER BY webhook.id;
