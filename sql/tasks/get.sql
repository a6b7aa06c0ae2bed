-- One task of the active workspace.
SELECT task_json(task) AS body, version
  FROM tasks AS task
 WHERE workspace_id = %(workspace_id)s
   AND id = %(id)s;
