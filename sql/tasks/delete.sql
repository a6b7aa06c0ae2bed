-- Remove a task of the active workspace for good, its subtasks with it, and announce each one's last state.
-- The task is locked first, so that nobody gives it another subtask meanwhile.
WITH doomed AS MATERIALIZED (
    SELECT task.id,
           task.version,
           (%(versions)s::integer[] IS NULL OR task.version = ANY (%(versions)s::integer[])) AS matched
      FROM tasks AS task
     WHERE task.workspace_id = %(workspace_id)s::uuid
       AND task.id = %(id)s::uuid
       FOR UPDATE
), removed AS (
    DELETE FROM tasks AS task
     USING doomed
     WHERE task.workspace_id = %(workspace_id)s::uuid
       AND (task.id = doomed.id OR task.parent_id = doomed.id)
       AND matched
 RETURNING task.id, task_json(task) AS body
)
SELECT doomed.version,
       matched,
       ARRAY(
           SELECT announce(%(workspace_id)s::uuid, 'task.deleted', body)
             FROM removed
            ORDER BY id DESC
       ) AS event_ids
  FROM doomed;
