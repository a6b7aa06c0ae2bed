-- The tasks of a workspace, oldest first, parents before their subtasks.
SELECT task_json(task) AS body
  FROM tasks AS task
 WHERE workspace_id = %(id)s
 ORDER BY parent_id IS NOT NULL, id;
