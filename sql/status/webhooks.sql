-- All webhooks with their state. Disabled webhooks come first, then failing ones.
SELECT id,
       (SELECT slug FROM workspaces WHERE id = webhooks.workspace_id) AS workspace,
       CASE
           WHEN disabled_at IS NOT NULL THEN 'disabled'
           WHEN failing_since IS NOT NULL THEN 'failing'
           ELSE 'enabled'
       END AS state,
       iso(failing_since) AS failing_since,
       coalesce(extract(epoch FROM now() - failing_since), 0)::float8 AS failing_seconds,
       disabled_reason
  FROM webhooks
 WHERE deleted_at IS NULL
 ORDER BY disabled_at NULLS LAST, failing_since NULLS LAST, id;
