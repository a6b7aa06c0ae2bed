-- Change what the document names and keep all else; a document that changes nothing writes and
-- announces nothing.
-- The row is locked first, so that the comparison is with what is there now, not with what was.
WITH present AS MATERIALIZED (
    SELECT task AS kept,
           jsonb_populate_record(task, %(changes)s::jsonb) AS wanted,
           (%(versions)s::integer[] IS NULL OR task.version = ANY (%(versions)s::integer[])) AS matched
      FROM tasks AS task
     WHERE task.workspace_id = %(workspace_id)s::uuid
       AND task.id = %(id)s::uuid
       FOR NO KEY UPDATE
), changed AS (
    UPDATE tasks AS task
       SET title = (wanted).title,
           description = (wanted).description,
           status = (wanted).status,
           priority = (wanted).priority,
           due_date = (wanted).due_date,
           assignee_id = (wanted).assignee_id,
           project_id = (wanted).project_id,
           parent_id = (wanted).parent_id,
           completed_at = CASE
               WHEN (wanted).status <> 'done' THEN NULL
               ELSE coalesce(task.completed_at, now_ms())
           END,
           updated_at = now_ms(),
           version = task.version + 1
      FROM present
     WHERE task.workspace_id = %(workspace_id)s::uuid
       AND task.id = %(id)s::uuid
       AND matched
       AND wanted IS DISTINCT FROM kept
 RETURNING task_json(task) AS body, task.version
)
SELECT body,
       version,
       true AS matched,
       announce(%(workspace_id)s::uuid, 'task.updated', body) AS event_id
  FROM changed
 UNION ALL
SELECT task_json(kept), (kept).version, matched, NULL
  FROM present
 WHERE NOT EXISTS (SELECT FROM changed);
