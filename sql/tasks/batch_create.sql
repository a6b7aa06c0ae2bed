-- Create the tasks of a batch in the active workspace, in their order, and announce each.
WITH item AS MATERIALIZED (
    SELECT task.ordinality AS number,
           coalesce(task.id, new_id()) AS id,
           title,
           description,
           status,
           priority,
           due_date,
           due_day,
           assignee_id,
           project_id,
           parent_id
      FROM json_populate_recordset(NULL::tasks, %(tasks)s::json) WITH ORDINALITY AS task
), created AS (
    INSERT INTO tasks AS task (
               workspace_id, id, title, description, status, priority, due_date, due_day,
               assignee_id, project_id, parent_id, created_by, completed_at,
               updated_by, updated_by_version
           )
    SELECT %(workspace_id)s::uuid,
           id,
           title,
           description,
           status,
           priority,
           due_date,
           due_day,
           assignee_id,
           project_id,
           parent_id,
           %(user_id)s::uuid,
           CASE WHEN status = 'done' THEN now_ms() END,
           %(user_id)s::uuid,
           1
      FROM item
     -- Two batches with the same ids insert them in the same order, so that neither waits for the
     -- other one. A parent comes before its subtasks.
     ORDER BY parent_id IS NOT NULL AND parent_id IN (SELECT id FROM item), id
 RETURNING task.workspace_id, task.id, task_json(task) AS body
), announced AS MATERIALIZED (
    SELECT number,
           body,
           CASE
               WHEN EXISTS (SELECT FROM feeds WHERE feeds.workspace_id = created.workspace_id)
               THEN announce(workspace_id, 'task.created', body, %(user_id)s::uuid)
           END AS event_id
      FROM created
      JOIN item USING (id)
     ORDER BY number
)
SELECT json_list(array_agg(body ORDER BY number)) AS data,
       ARRAY(
           SELECT event_id FROM announced WHERE event_id IS NOT NULL ORDER BY number
       ) AS event_ids
  FROM announced;
