-- Make the changes of a batch, and announce each task that changes. The fields change as in
-- tasks/update. The tasks are locked already, and have the expected versions.
WITH item AS MATERIALIZED (
    SELECT number, (item ->> 'id')::uuid AS id, item -> 'changes' AS changes
      FROM jsonb_array_elements(%(updates)s::jsonb) WITH ORDINALITY AS element (item, number)
), old AS MATERIALIZED (
    SELECT number,
           item.id,
           changes,
           task AS before,
           jsonb_populate_record(task, changes) AS after
      FROM item
      JOIN tasks AS task ON task.workspace_id = %(workspace_id)s::uuid AND task.id = item.id
), changed AS (
    UPDATE tasks AS task
       SET title = (after).title,
           description = (after).description,
           status = (after).status,
           priority = (after).priority,
           due_date = (after).due_date,
           due_day = CASE
               WHEN changes ? 'due_day' OR (after).due_date = task.due_date
               THEN (after).due_day
           END,
           assignee_id = (after).assignee_id,
           project_id = (after).project_id,
           parent_id = (after).parent_id,
           completed_at = CASE
               WHEN (after).status <> 'done' THEN NULL
               ELSE coalesce(task.completed_at, now_ms())
           END,
           updated_at = now_ms(),
           version = task.version + 1,
           updated_by = %(user_id)s::uuid,
           updated_by_version = task.version + 1
      FROM old
     WHERE task.workspace_id = %(workspace_id)s::uuid
       AND task.id = old.id
       AND after IS DISTINCT FROM before
 RETURNING task.workspace_id, task.id, task_json(task) AS body
), announced AS MATERIALIZED (
    SELECT number,
           coalesce(body, task_json(before)) AS body,
           CASE
               WHEN EXISTS (SELECT FROM feeds WHERE feeds.workspace_id = changed.workspace_id)
               THEN announce(
                        workspace_id, 'task.updated', body, %(user_id)s::uuid, task_json(before)
                    )
           END AS event_id
      FROM old
      LEFT JOIN changed USING (id)
     ORDER BY number
)
SELECT json_list(array_agg(body ORDER BY number)) AS data,
       ARRAY(
           SELECT event_id FROM announced WHERE event_id IS NOT NULL ORDER BY number
       ) AS event_ids
  FROM announced;
