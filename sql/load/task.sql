-- Insert tasks, in the order of their lines; a subtask comes after its parent.
INSERT INTO tasks (
           workspace_id, id, title, description, status, priority, due_date, due_day,
           assignee_id, project_id, parent_id, created_by, created_at, updated_at, completed_at,
           version, updated_by, updated_by_version, completed_by
       )
SELECT item.workspace_id,
       coalesce(item.id, new_id(coalesce(item.created_at, clock_timestamp()))),
       item.title,
       item.description,
       item.status,
       item.priority,
       coalesce(item.due_date, end_of_day(item.due_day, item.workspace_id)),
       item.due_day,
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
       first,
       -- If the line has no updatedBy, and nothing has changed the object, it is the author.
       CASE
           WHEN item.updated_by IS NULL
            AND item.version = 1
            AND coalesce(item.updated_at = item.created_at, item.updated_at IS NULL)
           THEN item.created_by
           ELSE item.updated_by
       END,
       first,
       item.completed_by
  FROM json_populate_recordset(NULL::tasks, %(rows)s::json) WITH ORDINALITY AS item
 CROSS JOIN LATERAL first_version('task', item.workspace_id, item.id, item.version) AS first
 ORDER BY item.ordinality;
