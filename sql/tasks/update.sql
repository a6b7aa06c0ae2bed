-- Change the fields that the parameter names, and announce the change. If no value changes, write
-- nothing.
-- The statement locks the row before it changes it, so that it checks the preconditions on the
-- current version.
WITH assignee AS MATERIALIZED (
    -- Users and members come before tasks in the order of locks.
    SELECT member.user_id
      FROM members AS member
      JOIN users AS person ON person.id = member.user_id
     WHERE member.workspace_id = %(workspace_id)s::uuid
       AND member.user_id = (%(changes)s::jsonb ->> 'assignee_id')::uuid
       FOR SHARE OF person
       FOR KEY SHARE OF member
), parent AS MATERIALIZED (
    -- Tasks are locked in the order of their ids. If the parent comes after the task, the trigger
    -- check_parent locks it.
    SELECT parent.id
      FROM tasks AS parent
     WHERE parent.workspace_id = %(workspace_id)s::uuid
       AND parent.id = (%(changes)s::jsonb ->> 'parent_id')::uuid
       AND parent.id < %(id)s::uuid
       FOR SHARE
), locked AS MATERIALIZED (
    SELECT task AS before,
           jsonb_populate_record(task, %(changes)s::jsonb) AS after,
           task.version <@ %(versions)s::int4multirange AS matched
      FROM tasks AS task
     WHERE task.workspace_id = %(workspace_id)s::uuid
       AND task.id = %(id)s::uuid
       AND (SELECT count(*) FROM assignee) + (SELECT count(*) FROM parent) >= 0
       FOR NO KEY UPDATE
), changed AS (
    UPDATE tasks AS task
       SET title = (after).title,
           description = (after).description,
           status = (after).status,
           priority = (after).priority,
           due_date = (after).due_date,
           -- A new timestamp comes without a day, so the old day is dropped. If a client sends a
           -- task back as it got it, the timestamp is the same, and the task keeps its day.
           due_day = CASE
               WHEN %(changes)s::jsonb ? 'due_day' OR (after).due_date = task.due_date
               THEN (after).due_day
           END,
           assignee_id = (after).assignee_id,
           project_id = (after).project_id,
           parent_id = (after).parent_id,
           completed_at = CASE
               WHEN (after).status <> 'done' THEN NULL
               ELSE coalesce(task.completed_at, now_ms())
           END,
           updated_at = now_ms(),
           version = task.version + 1,
           updated_by = %(user_id)s::uuid,
           updated_by_version = task.version + 1
      FROM locked
     WHERE task.workspace_id = %(workspace_id)s::uuid
       AND task.id = %(id)s::uuid
       AND matched
       AND after IS DISTINCT FROM before
 RETURNING task.workspace_id, task_json(task) AS body, task.version
)
SELECT coalesce(changed.body, task_json(before)) AS body,
       coalesce(changed.version, (before).version) AS version,
       matched,
       CASE
           WHEN EXISTS (SELECT FROM feeds WHERE feeds.workspace_id = changed.workspace_id)
           THEN announce(
                    changed.workspace_id,
                    'task.updated',
                    changed.body,
                    %(user_id)s::uuid,
                    task_json(before)
                )
       END AS event_id
  FROM locked
  LEFT JOIN changed ON true;
