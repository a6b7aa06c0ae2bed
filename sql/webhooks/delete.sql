-- Mark a webhook as deleted, so that its workspace no longer sees it. The worker deletes its rows
-- later (worker/prune_webhooks).
WITH locked AS MATERIALIZED (
    SELECT webhook AS before,
           version <@ %(versions)s::int4multirange AS matched
      FROM lock_webhook(%(workspace_id)s, %(id)s, %(token_id)s) AS webhook
), deleted AS (
    UPDATE webhooks AS webhook
       SET deleted_at = now(),
           disabled_at = coalesce(disabled_at, now())
      FROM locked
     WHERE workspace_id = %(workspace_id)s
       AND id = (before).id
       AND matched
)
SELECT (before).id,
       (before).version,
       matched,
       CASE WHEN NOT matched THEN row_to_json(show_webhook(before)) END AS body
  FROM locked;
