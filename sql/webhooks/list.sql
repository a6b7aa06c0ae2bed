-- The webhooks of a workspace with their state, oldest first.
SELECT webhook.id,
       CASE
           WHEN webhook.disabled_at IS NOT NULL THEN 'disabled'
           WHEN webhook.failing_since IS NOT NULL THEN 'failing'
           ELSE 'enabled'
       END AS state,
       webhook.url,
       coalesce(nullif(array_to_string(webhook.events, ','), ''), 'all') AS events,
       iso(webhook.failing_since) AS failing_since,
       webhook.disabled_reason
  FROM webhooks AS webhook
  JOIN workspaces AS workspace ON workspace.id = webhook.workspace_id
 WHERE workspace.slug = %(slug)s
 ORDER BY webhook.id;
