-- How many deliveries wait, how many have failed, and how many are more than a minute late.
SELECT count(*) FILTER (WHERE delivery.state = 'waiting') AS waiting,
       count(*) FILTER (WHERE delivery.state = 'failed') AS failed,
       count(*) FILTER (WHERE late.seconds > 60) AS overdue,
       coalesce(max(late.seconds) FILTER (WHERE late.seconds > 60), 0)::float8
       AS oldest_overdue_seconds
  FROM deliveries AS delivery
  JOIN webhooks AS webhook
    ON webhook.workspace_id = delivery.workspace_id AND webhook.id = delivery.webhook_id
 CROSS JOIN LATERAL (
       SELECT CASE
                  WHEN delivery.state = 'waiting' AND webhook.disabled_at IS NULL
                  THEN extract(epoch FROM now() - greatest(delivery.due_at, webhook.backoff_until))
              END AS seconds
       ) AS late
 WHERE delivery.state <> 'delivered'
   AND webhook.deleted_at IS NULL;
