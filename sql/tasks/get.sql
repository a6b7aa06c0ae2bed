-- One task of the active workspace.
SELECT task_json(task) AS body, task.version
  FROM tasks AS task
 WHERE task.workspace_id = %(workspace_id)s
   AND task.id = %(id)s;
