-- The webhooks of a workspace as the API shows them, and what only operators see, oldest first.
-- Finding the last attempt needs all attempts of a webhook, so it is done for operators only.
SELECT row_to_json(show_webhook(webhook)) AS body,
       CASE
           WHEN webhook.backoff_until > now() THEN iso(webhook.backoff_until)
       END AS backoff_until,
       iso(last_attempt.at) AS last_attempt_at,
       coalesce(last_attempt.status::text, last_attempt.error) AS last_status
  FROM webhooks AS webhook
  LEFT JOIN LATERAL (
       SELECT attempt.at, attempt.status, attempt.error
         FROM deliveries AS delivery
         JOIN attempts AS attempt
           ON attempt.workspace_id = delivery.workspace_id AND attempt.delivery_id = delivery.id
        WHERE delivery.workspace_id = webhook.workspace_id
          AND delivery.webhook_id = webhook.id
          AND %(user_id)s::uuid IS NULL
        ORDER BY attempt.at DESC
        LIMIT 1
       ) AS last_attempt ON true
 WHERE webhook.workspace_id = %(workspace_id)s
   AND webhook.deleted_at IS NULL
   AND manages(%(user_id)s, %(workspace_id)s)
 ORDER BY webhook.id;
