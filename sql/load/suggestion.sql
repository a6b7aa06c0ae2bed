-- Insert suggestions, in the order of their lines, and announce the pending ones.
WITH created AS (
    INSERT INTO suggestions AS suggestion (
               workspace_id, id, kind, title, body, task_id, status, created_at
           )
    SELECT workspace_id,
           coalesce(id, new_id(coalesce(created_at, clock_timestamp()))),
           kind,
           title,
           body,
           task_id,
           status,
           coalesce(created_at, now_ms())
      FROM json_populate_recordset(NULL::suggestions, %(rows)s) WITH ORDINALITY
     ORDER BY ordinality
 RETURNING workspace_id, id, status, suggestion_json(suggestion) AS body
)
SELECT announce(workspace_id, 'ai.suggestion.created', body)
  FROM created
 WHERE status = 'pending'
 ORDER BY id;
