-- Delete a task of the active workspace and its subtasks, and announce the last state of each,
-- subtasks first.
-- The statement first locks them all, in the order of their ids. Once it has locked the task, no
-- other transaction can add a subtask.
-- It deletes nothing if the events would contain more than 16 MiB of text, because writing them
-- would exceed statement_timeout. Without an enabled webhook and without a reader of the feed, no
-- events are written.
WITH locked AS MATERIALIZED (
    SELECT task.id,
           task.version,
           text_bytes(task) AS bytes,
           CASE
               WHEN task.id = %(id)s::uuid AND NOT task.version <@ %(versions)s::int4multirange
               THEN task_json(task)
           END AS current
      FROM tasks AS task
     WHERE task.workspace_id = %(workspace_id)s::uuid
       AND (task.id = %(id)s::uuid OR task.parent_id = %(id)s::uuid)
     ORDER BY task.id
       FOR UPDATE
), target AS MATERIALIZED (
    SELECT id,
           version,
           version <@ %(versions)s::int4multirange AS matched,
           current,
           CASE WHEN EXISTS (
                    SELECT
                      FROM webhooks AS webhook
                     WHERE webhook.workspace_id = %(workspace_id)s::uuid
                       AND webhook.disabled_at IS NULL
                     UNION ALL
                    SELECT
                      FROM feeds AS feed
                     WHERE feed.workspace_id = %(workspace_id)s::uuid
                       AND feed.read_at IS NOT NULL
                )
                THEN (SELECT coalesce(sum(bytes), 0) FROM locked WHERE id <> %(id)s::uuid)
           END AS bytes_to_announce
      FROM locked
     WHERE id = %(id)s::uuid
), deleted AS (
    DELETE FROM tasks AS task
     USING target
     WHERE task.workspace_id = %(workspace_id)s::uuid
       AND (task.id = target.id OR task.parent_id = target.id)
       AND matched
       AND coalesce(bytes_to_announce, 0) <= 16777216
 RETURNING task.*
)
SELECT target.version,
       matched,
       current,
       coalesce(bytes_to_announce, 0) <= 16777216 AS deletable,
       ARRAY(
           SELECT announce(
                      %(workspace_id)s::uuid,
                      'task.deleted',
                      task_json(ROW(deleted.*)::tasks),
                      %(user_id)s::uuid
                  )
             FROM deleted
            WHERE bytes_to_announce IS NOT NULL
            ORDER BY parent_id IS NULL, id DESC
       ) AS event_ids
  FROM target;
