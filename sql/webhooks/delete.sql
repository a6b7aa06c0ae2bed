-- Mark a webhook as deleted, so that its workspace no longer sees it. The worker deletes its rows
-- later (worker/prune_webhooks).
WITH locked AS MATERIALIZED (
    SELECT webhook AS before,
           version <@ %(versions)s::int4multirange AS matched
      FROM webhooks AS webhook
     WHERE workspace_id = %(workspace_id)s
       AND id = %(id)s
       AND deleted_at IS NULL
       AND manages(%(user_id)s, %(workspace_id)s)
       -- A change that would announce an event to this webhook waits here.
       FOR UPDATE
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
