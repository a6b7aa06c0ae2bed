-- Take every lock that a batch needs, in the order of locks, so that none of its later statements
-- waits for a lock that another request holds: the users who are assignees, their memberships, the
-- workspace, the ids of new tasks, and then the tasks in the order of their ids: those that the
-- batch changes or deletes, the subtasks of those that it deletes, the parents of those that it
-- writes, and those that have an id of a new task and may just be being deleted.
-- Return the ids of the tasks that do not exist, and whether all the others have the expected
-- version, if one is given.
WITH person AS MATERIALIZED (
    SELECT person.id
      FROM members AS member
      JOIN users AS person ON person.id = member.user_id
     WHERE member.workspace_id = %(workspace_id)s
       AND member.user_id = ANY (%(assignee_ids)s::uuid[])
     ORDER BY person.id
       FOR SHARE OF person
), assignee AS MATERIALIZED (
    -- No user is locked after a member: the removal of a member has locked the user when it waits
    -- for the owners.
    SELECT member.user_id
      FROM members AS member
     WHERE member.workspace_id = %(workspace_id)s
       AND member.user_id = ANY (%(assignee_ids)s::uuid[])
       AND (SELECT count(*) FROM person) >= 0
     ORDER BY member.user_id
       FOR KEY SHARE
), workspace AS MATERIALIZED (
    -- The foreign key of a new task locks this row too.
    SELECT id
      FROM workspaces
     WHERE id = %(workspace_id)s
       FOR KEY SHARE
), new_id AS MATERIALIZED (
    -- A new task has no row yet, so an advisory lock stands for it. Two batches that create the
    -- same ids, each in its own order, would wait for each other.
    SELECT pg_advisory_xact_lock(hashtext(%(workspace_id)s::uuid::text), item.hash) AS locked
      FROM (
           SELECT DISTINCT hashtext(id::text) AS hash
             FROM unnest(%(new_ids)s::uuid[]) AS id
            ORDER BY hash
           ) AS item
), locked AS MATERIALIZED (
    SELECT task.id, task.version
      FROM tasks AS task
     WHERE task.workspace_id = %(workspace_id)s
       AND (task.id = ANY (%(ids)s::uuid[] || %(parent_ids)s::uuid[] || %(new_ids)s::uuid[])
            OR task.parent_id = ANY (%(deleted_ids)s::uuid[]))
       AND (SELECT count(*) FROM assignee)
         + (SELECT count(*) FROM workspace)
         + (SELECT count(*) FROM new_id) >= 0
     ORDER BY task.id
       FOR UPDATE
)
SELECT coalesce(array_agg(item.id) FILTER (WHERE locked.id IS NULL), '{}') AS missing,
       coalesce(bool_and(locked.version = item.version), true) AS matched
  FROM unnest(%(ids)s::uuid[], %(versions)s::integer[]) AS item (id, version)
  LEFT JOIN locked ON locked.id = item.id
  -- Lock the parents of new tasks even if the batch changes and deletes no task.
 WHERE (
           SELECT set_config('service.has_all_locks', 'on', true)
             FROM (SELECT count(*) FROM locked) AS counted
       ) = 'on';
