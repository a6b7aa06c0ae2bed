-- Lock everything that a batch will lock: its assignees, then its tasks in the order of their ids,
-- with the subtasks of those that it deletes. So no later statement of the batch waits for a lock
-- that comes earlier in the order of locks.
-- Return whether every task exists and has the expected version, if one is given, and whether the
-- tasks contain at most 4 MiB of text: the response and the events of the batch show them whole.
WITH assignee AS MATERIALIZED (
    SELECT member.user_id
      FROM members AS member
      JOIN users AS person ON person.id = member.user_id
     WHERE member.workspace_id = %(workspace_id)s::uuid
       AND member.user_id = ANY (%(assignee_ids)s::uuid[])
     ORDER BY person.id
       FOR SHARE OF person
       FOR KEY SHARE OF member
), locked AS MATERIALIZED (
    SELECT task.id, task.parent_id, task.version, text_bytes(task) AS bytes
      FROM tasks AS task
     WHERE task.workspace_id = %(workspace_id)s::uuid
       AND (task.id = ANY (%(ids)s::uuid[])
            OR task.id = ANY (%(parent_ids)s::uuid[])
            OR task.parent_id = ANY (%(deleted_ids)s::uuid[]))
       AND (SELECT count(*) FROM assignee) >= 0
     ORDER BY task.id
       FOR UPDATE
)
SELECT NOT EXISTS (
           SELECT
             FROM unnest(%(ids)s::uuid[], %(versions)s::integer[]) AS item (id, version)
             LEFT JOIN locked ON locked.id = item.id
            WHERE locked.version IS DISTINCT FROM coalesce(item.version, locked.version)
               OR locked.version IS NULL
       ) AS matched,
       (
           SELECT coalesce(sum(bytes), 0) <= 4194304
             FROM locked
            WHERE id = ANY (%(ids)s::uuid[]) OR parent_id = ANY (%(deleted_ids)s::uuid[])
       ) AS fits;
