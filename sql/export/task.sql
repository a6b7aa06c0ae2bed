-- The tasks of a workspace, oldest first, parents before their subtasks.
SELECT task_json(task) AS body
  FROM tasks AS task
 WHERE task.workspace_id = %(id)s
 ORDER BY task.parent_id IS NOT NULL, task.id;
