-- Change the fields that the parameter names, and announce the change. If no value changes, write
-- nothing.
-- The statement locks the row before it changes it, so that it checks the preconditions on the
-- current version. A batch has taken the locks before.
WITH assignee AS MATERIALIZED (
    -- Users and members come before tasks in the order of locks.
    SELECT member.user_id
      FROM members AS member
      JOIN users AS person ON person.id = member.user_id
     WHERE member.workspace_id = %(workspace_id)s
       AND member.user_id = (%(changes)s::jsonb ->> 'assignee_id')::uuid
       AND NOT has_all_locks()
       FOR SHARE OF person
       FOR KEY SHARE OF member
), parent AS MATERIALIZED (
    -- Tasks are locked in the order of their ids. update_task() locks a parent that comes after the
    -- task.
    SELECT id
      FROM tasks
     WHERE workspace_id = %(workspace_id)s
       AND id = (%(changes)s ->> 'parent_id')::uuid
       AND id < %(id)s
       AND NOT has_all_locks()
       FOR SHARE
), locked AS MATERIALIZED (
    SELECT task AS before,
           version <@ %(versions)s::int4multirange AS matched,
           -- A precondition that fails comes before metadata that is too long.
           CASE
               WHEN version <@ %(versions)s
               THEN jsonb_populate_record(task, with_metadata(%(changes)s, metadata))
           END AS after
      FROM tasks AS task
     WHERE workspace_id = %(workspace_id)s
       AND id = %(id)s
       AND (SELECT count(*) FROM (SELECT FROM assignee UNION ALL SELECT FROM parent) AS first) >= 0
       FOR NO KEY UPDATE
), stored AS MATERIALIZED (
    SELECT before,
           matched,
           CASE
               WHEN matched AND after IS DISTINCT FROM before
               THEN update_task(after, %(changes)s, %(user_id)s)
               ELSE before
           END AS task
      FROM locked
), shown AS MATERIALIZED (
    SELECT stored.*, task_json(task) AS body FROM stored
)
SELECT body,
       (task).version,
       matched,
       CASE
           WHEN (task).version <> (before).version
            AND EXISTS (SELECT FROM feeds WHERE workspace_id = (before).workspace_id)
           THEN announce(
                    (before).workspace_id,
                    'task.updated',
                    body,
                    %(user_id)s,
                    task_json(before)
                )
       END AS event_id
  FROM shown;
