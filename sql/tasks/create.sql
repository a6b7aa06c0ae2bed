-- Create a task in the active workspace and announce it.
WITH created AS (
    INSERT INTO tasks (
               workspace_id, id, title, description, status, priority, due_date, due_day,
               assignee_id, project_id, parent_id, created_by, completed_at,
               version, updated_by, updated_by_version, completed_by, metadata
           )
    SELECT %(workspace_id)s,
           coalesce(%(id)s, new_id()),
           %(title)s::text,
           %(description)s::text,
           %(status)s::text,
           %(priority)s::text,
           %(due_date)s::timestamptz,
           %(due_day)s::date,
           %(assignee_id)s,
           %(project_id)s::text,
           %(parent_id)s,
           %(user_id)s,
           CASE WHEN %(status)s = 'done' THEN now_ms() END,
           first,
           %(user_id)s,
           first,
           CASE WHEN %(status)s = 'done' THEN %(user_id)s::uuid END,
           %(metadata)s::jsonb
      FROM first_version(
               'task', share_workspace(%(workspace_id)s, %(token_id)s), %(id)s
           ) AS first
 RETURNING workspace_id, id, version, task_json(tasks) AS body
)
SELECT body,
       version,
       id,
       announce(workspace_id, 'task.created', body, %(user_id)s) AS event_id
  FROM created;
