-- Remove a task of the active workspace for good, and its subtasks with it.
-- The task is locked first, so that nobody gives it another subtask meanwhile.
WITH doomed AS MATERIALIZED (
    SELECT task.workspace_id, task.id
      FROM tasks AS task
     WHERE task.workspace_id = %(workspace_id)s::uuid
       AND task.id = %(id)s::uuid
       FOR UPDATE
), subtasks AS (
    DELETE FROM tasks AS subtask
     USING doomed
     WHERE subtask.workspace_id = %(workspace_id)s::uuid
       AND subtask.parent_id = doomed.id
)
DELETE FROM tasks AS task
 USING doomed
 WHERE task.workspace_id = %(workspace_id)s::uuid
   AND task.id = doomed.id
RETURNING task.id;
