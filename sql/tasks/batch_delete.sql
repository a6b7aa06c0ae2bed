-- Delete the tasks of a batch and their subtasks, and announce the last state of each, in the order
-- of the batch, subtasks before their parents. The tasks are locked already, and have the expected
-- versions.
WITH deleted AS (
    DELETE FROM tasks AS task
     WHERE task.workspace_id = %(workspace_id)s::uuid
       AND (task.id = ANY (%(ids)s::uuid[]) OR task.parent_id = ANY (%(ids)s::uuid[]))
 RETURNING task.*
)
SELECT ARRAY(
           SELECT announce(
                      %(workspace_id)s::uuid,
                      'task.deleted',
                      task_json(ROW(deleted.*)::tasks),
                      %(user_id)s::uuid
                  )
             FROM deleted
            WHERE EXISTS (SELECT FROM feeds WHERE feeds.workspace_id = deleted.workspace_id)
            ORDER BY coalesce(
                         array_position(%(ids)s::uuid[], deleted.parent_id),
                         array_position(%(ids)s::uuid[], deleted.id)
                     ),
                     deleted.parent_id IS NULL,
                     deleted.id DESC
       ) AS event_ids;
