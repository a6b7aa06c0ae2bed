-- All webhooks with their state. Disabled webhooks come first, then failing ones.
SELECT webhook.id,
       workspace.slug AS workspace,
       CASE
           WHEN webhook.disabled_at IS NOT NULL THEN 'disabled'
           WHEN webhook.failing_since IS NOT NULL THEN 'failing'
           ELSE 'enabled'
       END AS state,
       iso(webhook.failing_since) AS failing_since,
       coalesce(extract(epoch FROM now() - webhook.failing_since), 0)::float8 AS failing_seconds,
       webhook.disabled_reason
  FROM webhooks AS webhook
  JOIN workspaces AS workspace ON workspace.id = webhook.workspace_id
 WHERE webhook.deleted_at IS NULL
 ORDER BY webhook.disabled_at NULLS LAST, webhook.failing_since NULLS LAST, webhook.id;
