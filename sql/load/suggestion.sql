-- Insert suggestions, in the order of their lines, and announce the pending ones.
WITH created AS (
    INSERT INTO suggestions AS suggestion (
               workspace_id, id, kind, title, body, task_id, status, created_at
           )
    SELECT item.workspace_id,
           coalesce(item.id, new_id(coalesce(item.created_at, clock_timestamp()))),
           item.kind,
           item.title,
           item.body,
           item.task_id,
           item.status,
           coalesce(item.created_at, now_ms())
      FROM json_populate_recordset(NULL::suggestions, %(rows)s) WITH ORDINALITY AS item
     ORDER BY item.ordinality
 RETURNING suggestion.workspace_id,
           suggestion.id,
           suggestion.status,
           suggestion_json(suggestion) AS body
)
SELECT announce(workspace_id, 'ai.suggestion.created', body)
  FROM created
 WHERE status = 'pending'
 ORDER BY id;
