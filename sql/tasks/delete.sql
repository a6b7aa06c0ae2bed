-- Delete a task of the active workspace and its subtasks, and announce the last state of each,
-- subtasks first.
-- The statement first locks them all, in the order of their ids. Once it has locked the task, no
-- other transaction can add a subtask; if one was added before that, the statement fails.
-- It deletes nothing if the task has more than 10 000 subtasks, or if the events would contain more
-- than 16 MiB of text, because writing the events would exceed statement_timeout. Without an
-- enabled webhook and without a reader of the feed, no events are written.
WITH locked AS MATERIALIZED (
    SELECT id,
           version,
           text_bytes(task) AS bytes,
           -- The task, if it has another version than it must have.
           CASE
               WHEN id = %(id)s AND NOT version <@ %(versions)s::int4multirange
               THEN task_json(task)
           END AS body
      FROM tasks AS task
     WHERE workspace_id = %(workspace_id)s
       AND (id = %(id)s OR parent_id = %(id)s)
     ORDER BY id
       FOR UPDATE
), subtasks AS MATERIALIZED (
    SELECT array_agg(id) AS ids,
           count(*) AS number,
           count(*) <= 10000 AND coalesce(sum(bytes), 0) <= 16777216 AS few
      FROM locked
     WHERE id <> %(id)s
), family AS MATERIALIZED (
    SELECT target.*,
           subtasks.ids || target.id AS ids,
           -- NULL if nobody listens.
           CASE WHEN EXISTS (
                    SELECT
                      FROM webhooks
                     WHERE workspace_id = %(workspace_id)s
                       AND disabled_at IS NULL
                     UNION ALL
                    SELECT
                      FROM feeds
                     WHERE workspace_id = %(workspace_id)s
                       AND read_at IS NOT NULL
                )
                THEN few
           END AS announceable,
           CASE
               WHEN body IS NULL
               THEN require_subtasks(%(workspace_id)s, %(id)s, subtasks.number)
           END AS checked
      FROM locked AS target
     CROSS JOIN subtasks
     WHERE target.id = %(id)s
), deleted AS (
    DELETE FROM tasks
     USING family
     WHERE tasks.workspace_id = %(workspace_id)s
       AND tasks.id = ANY (ids)
       AND body IS NULL
       AND coalesce(announceable, true)
 RETURNING tasks.*
)
SELECT version,
       body IS NULL AS matched,
       body,
       coalesce(announceable, true) AS deletable,
       ARRAY(
           SELECT announce(
                      %(workspace_id)s,
                      'task.deleted',
                      task_json(deleted::tasks),
                      %(user_id)s
                  )
             FROM deleted
            WHERE announceable IS NOT NULL
            ORDER BY parent_id IS NULL, id DESC
       ) AS event_ids
  FROM family;
