-- Delete a task of the active workspace and its subtasks, and announce the last state of each.
-- The task is locked first, so that nobody can add a subtask meanwhile.
WITH target AS MATERIALIZED (
    SELECT task.id,
           task.version,
           (%(versions)s::integer[] IS NULL
            OR task.version = ANY (%(versions)s::integer[])) AS matched
      FROM tasks AS task
     WHERE task.workspace_id = %(workspace_id)s::uuid
       AND task.id = %(id)s::uuid
       FOR UPDATE
), deleted AS (
    DELETE FROM tasks AS task
     USING target
     WHERE task.workspace_id = %(workspace_id)s::uuid
       AND (task.id = target.id OR task.parent_id = target.id)
       AND matched
 RETURNING task.id, task_json(task) AS body
)
SELECT target.version,
       matched,
       ARRAY(
           SELECT announce(%(workspace_id)s::uuid, 'task.deleted', body)
             FROM deleted
            ORDER BY id DESC
       ) AS event_ids
  FROM target;
