-- Insert tasks, in the order of their lines; a subtask comes after its parent.
INSERT INTO tasks (
           workspace_id, id, title, description, status, priority, due_date, due_day,
           assignee_id, project_id, parent_id, created_by, created_at, updated_at, completed_at,
           version
       )
SELECT item.workspace_id,
       coalesce(item.id, new_id(coalesce(item.created_at, clock_timestamp()))),
       item.title,
       item.description,
       item.status,
       item.priority,
       due_moment(coalesce(item.due_date, item.due_day), item.workspace_id),
       (CASE length(item.due_date) WHEN 10 THEN item.due_date ELSE item.due_day END)::date,
       item.assignee_id,
       item.project_id,
       item.parent_id,
       item.created_by,
       coalesce(item.created_at, now_ms()),
       coalesce(item.updated_at, item.created_at, now_ms()),
       CASE
           WHEN item.status = 'done'
           THEN coalesce(item.completed_at, item.updated_at, item.created_at, now_ms())
       END,
       item.version
  FROM json_to_recordset(%(rows)s::json) AS item (
           line integer,
           workspace_id uuid,
           id uuid,
           title text,
           description text,
           status text,
           priority text,
           due_date text,
           due_day text,
           assignee_id uuid,
           project_id text,
           parent_id uuid,
           created_by uuid,
           created_at timestamptz,
           updated_at timestamptz,
           completed_at timestamptz,
           version integer
       )
 ORDER BY item.line;
