-- Return whether the tasks that a batch changes or deletes, with the subtasks of those that it
-- deletes, have at most 4 MiB of JSON. The response, the events and the errors of the batch show
-- them whole.
-- The JSON of a task is never shorter than its texts. PostgreSQL knows their sizes without reading
-- them, so it does not write the JSON of tasks whose texts alone are too long.
-- The batch holds these tasks, unless a subtask was made while the batch waited for its parent. The
-- statement locks that subtask too, and fails if it would have to wait.
WITH concerned AS MATERIALIZED (
    SELECT *
      FROM tasks
     WHERE workspace_id = %(workspace_id)s
       AND (id = ANY (%(ids)s::uuid[])
            OR parent_id = ANY (%(deleted_ids)s::uuid[]))
       FOR UPDATE NOWAIT
)
SELECT CASE
           WHEN (SELECT coalesce(sum(text_bytes(concerned::tasks)), 0) FROM concerned)
                <= 4194304
           THEN (
                    SELECT coalesce(sum(octet_length(task_json(concerned::tasks)::text)), 0)
                           <= 4194304
                      FROM concerned
                )
           ELSE false
       END AS fits;
