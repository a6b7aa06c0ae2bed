-- Tasks: filters, the rules for parents and assignees, and their JSON.

-- Return whether a task matches the filters of a list. An absent filter matches every task.
-- PostgreSQL inlines this function, is_any() and is_chosen(), and plans for the values of the
-- filters, so each of them can use an index. Therefore the function contains every filter of tasks,
-- one condition each; a list may leave out those that its order contains.
CREATE OR REPLACE FUNCTION matches(task tasks, filters jsonb, user_id uuid, workspace_id uuid)
RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT is_any(task.status, string_to_array(filters ->> 'status', ','))
       AND is_any(task.priority, string_to_array(filters ->> 'priority', ','))
       AND is_chosen(task.assignee_id, filters ->> 'assignee', user_id)
       AND (filters ->> 'project_id' IS NULL OR task.project_id = filters ->> 'project_id')
       AND is_chosen(task.parent_id, filters ->> 'parent_id', NULL)
       AND is_chosen(task.completed_by, filters ->> 'completed_by', user_id)
       -- In the index the status precedes the date, so the condition names every status.
       AND (NOT filters ?| '{due_after,due_before}'
            OR task.status IN ('todo', 'in_progress', 'done')
               AND task.due_date >= coalesce(
                       time_bound(filters ->> 'due_after', workspace_id), '-infinity'
                   )
               AND task.due_date < coalesce(
                       time_bound(filters ->> 'due_before', workspace_id), 'infinity'
                   ))
       -- Only a task with the status done has a time of completion.
       AND (NOT filters ?| '{completed_after,completed_before}'
            OR is_any('done', string_to_array(filters ->> 'status', ','))
               AND task.status = 'done'
               AND task.completed_at >= coalesce(
                       time_bound(filters ->> 'completed_after', workspace_id), '-infinity'
                   )
               AND task.completed_at < coalesce(
                       time_bound(filters ->> 'completed_before', workspace_id), 'infinity'
                   ))
$$;

-- Return whether a filter chooses an id: "none" chooses NULL, "me" the user, an absent filter every
-- id. PostgreSQL inlines the function.
CREATE OR REPLACE FUNCTION is_chosen(id uuid, filter text, user_id uuid) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE filter
               WHEN 'none' THEN id IS NULL
               WHEN 'me' THEN id = user_id
               ELSE filter IS NULL OR id = filter::uuid
           END
$$;

-- Release 1.1.0 calls this.
CREATE OR REPLACE FUNCTION matches(
    task tasks,
    priorities text[],
    assignee text,
    user_id uuid,
    project_id text,
    parent_id text
) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT is_any(task.priority, priorities)
       AND is_chosen(task.assignee_id, assignee, user_id)
       AND (matches.project_id IS NULL OR task.project_id = matches.project_id)
       AND is_chosen(task.parent_id, matches.parent_id, NULL)
$$;

-- Return whether this transaction has taken all locks that it needs, in the order of locks: users
-- and members, the workspace, tasks by their ids. lock_batch() and update_task() say so. If it
-- waited for a task or a member that came later, other transactions could wait for it in turn. So
-- the functions below do not wait, and such a task or member does not exist for them.
-- A transaction of release 1.1.0 or of an operator does not say so.
CREATE OR REPLACE FUNCTION has_all_locks() RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT coalesce(current_setting('service.has_all_locks', true) = 'on', false)
$$;

-- Take every lock that a batch needs, in the order of locks, so that none of its later statements
-- waits for a lock that another request holds. Return the ids of the tasks to change or to delete
-- that do not exist, and whether the others, with the subtasks of those to delete, have at most
-- 4 MiB of JSON: the response, the events and the errors of the batch show them whole.
CREATE OR REPLACE FUNCTION lock_batch(
    workspace_id uuid,
    ids uuid[],
    deleted_ids uuid[],
    new_ids uuid[],
    parent_ids uuid[],
    assignee_ids uuid[],
    OUT missing uuid[],
    OUT fits boolean
)
LANGUAGE plpgsql
AS $$
DECLARE
    -- The tasks to change or to delete, the subtasks of the latter, the parents of those to write,
    -- and tasks that have an id of a new one and may just be being deleted. A task that is made
    -- later does not exist for the batch.
    locked uuid[] := ARRAY(
        SELECT id
          FROM tasks
         WHERE tasks.workspace_id = lock_batch.workspace_id
           AND (id = ANY (ids || parent_ids || new_ids) OR parent_id = ANY (deleted_ids))
    );
BEGIN
    -- No user is locked after a member: the removal of a member has locked the user when it waits
    -- for the owners.
    assignee_ids := ARRAY(
        SELECT person.id
          FROM members AS member
          JOIN users AS person ON person.id = member.user_id
         WHERE member.workspace_id = lock_batch.workspace_id
           AND member.user_id = ANY (assignee_ids)
         ORDER BY person.id
           FOR SHARE OF person
    );
    PERFORM FROM members
      WHERE members.workspace_id = lock_batch.workspace_id
        AND user_id = ANY (assignee_ids)
      ORDER BY user_id
        FOR KEY SHARE;
    -- The foreign key of a new task locks this row too.
    PERFORM FROM workspaces
      WHERE id = lock_batch.workspace_id
        FOR KEY SHARE;
    -- A new task has no row yet, so an advisory lock stands for it. Two batches that create the
    -- same ids, each in its own order, would wait for each other.
    PERFORM pg_advisory_xact_lock(hashtext(lock_batch.workspace_id::text), hash)
       FROM (
            SELECT DISTINCT hashtext(id::text) AS hash FROM unnest(new_ids) AS id ORDER BY hash
            ) AS item;
    locked := ARRAY(
        SELECT id
          FROM tasks
         WHERE tasks.workspace_id = lock_batch.workspace_id
           AND id = ANY (locked)
         ORDER BY id
           FOR UPDATE
    );
    PERFORM set_config('service.has_all_locks', 'on', true);
    missing := ARRAY(SELECT unnest(ids) EXCEPT SELECT unnest(locked));
    -- If a subtask was made while the batch waited for its parent, this locks it too, and fails if
    -- it would have to wait.
    -- The JSON of a task is never shorter than its texts. PostgreSQL knows their sizes without
    -- reading them, so it does not write the JSON of tasks whose texts alone are too long.
    WITH concerned AS MATERIALIZED (
        SELECT *
          FROM tasks
         WHERE tasks.workspace_id = lock_batch.workspace_id
           AND (id = ANY (ids) OR parent_id = ANY (deleted_ids))
           FOR UPDATE NOWAIT
    )
    SELECT CASE
               WHEN coalesce(sum(text_bytes(concerned::tasks)), 0) <= 4194304
               THEN (
                        SELECT coalesce(sum(octet_length(task_json(concerned::tasks)::text)), 0)
                               <= 4194304
                          FROM concerned
                    )
               ELSE false
           END
      INTO fits
      FROM concerned;
END
$$;

-- Allow two levels of tasks only, and no task as its own parent. The trigger runs when a task gets
-- a new parent. It locks the parent, so that the parent cannot become a subtask at the same time.
-- The trigger fails if there is no parent yet, even if the statement inserts it later. The foreign
-- key, which looks at the end, might find one that another transaction has made as a subtask.
-- The workspace, which the foreign key of a new task locks, comes first in the order of locks.
CREATE OR REPLACE FUNCTION check_parent() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    grandparent_id uuid;
BEGIN
    IF NEW.parent_id = NEW.id THEN
        RAISE check_violation USING CONSTRAINT = 'parentId must be another task';
    END IF;
    PERFORM FROM workspaces
      WHERE id = NEW.workspace_id
        FOR KEY SHARE;
    SELECT parent_id
      INTO grandparent_id
      FROM tasks
     WHERE workspace_id = NEW.workspace_id
       AND id = NEW.parent_id
       FOR SHARE SKIP LOCKED;
    IF NOT FOUND AND NOT has_all_locks() THEN
        SELECT parent_id
          INTO grandparent_id
          FROM tasks
         WHERE workspace_id = NEW.workspace_id
           AND id = NEW.parent_id
           FOR SHARE;
    END IF;
    IF NOT FOUND THEN
        RAISE foreign_key_violation
              USING CONSTRAINT = 'parentId must be the id of a task of the workspace',
                    HINT = 'Insert each task before its subtasks.';
    END IF;
    IF grandparent_id IS NOT NULL THEN
        RAISE check_violation USING CONSTRAINT = 'parentId must not be the id of a subtask';
    END IF;
    PERFORM FROM tasks
      WHERE workspace_id = NEW.workspace_id
        AND parent_id = NEW.id;
    IF FOUND THEN
        RAISE check_violation USING CONSTRAINT = 'parentId must be null for a task with subtasks';
    END IF;
    RETURN NEW;
END
$$;

-- Raise an error if a task has more than this number of subtasks. The caller has locked the task
-- and this number of them, so another one was added while the caller waited for a lock. The foreign
-- key would wait for a transaction that holds it, and that transaction may wait for the task.
-- The query has a newer snapshot than the caller, and nobody can add a subtask any more.
CREATE OR REPLACE FUNCTION require_subtasks(workspace_id uuid, parent_id uuid, number bigint)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM tasks
      WHERE tasks.workspace_id = require_subtasks.workspace_id
        AND tasks.parent_id = require_subtasks.parent_id
     HAVING count(*) > number;
    IF FOUND THEN
        RAISE serialization_failure;
    END IF;
END
$$;

-- Reject a new assignment to a deactivated user.
-- The command load may insert an older task of a deactivated assignee: created_at of the task must
-- lie before the deactivation. A task that this transaction creates is rejected, even if the
-- transaction began before the deactivation or in the same millisecond. As in check_parent(), the
-- foreign key might find a member who has joined later, so the trigger fails if there is none.
-- The lock on the user makes this transaction wait for a deactivation that has not committed yet,
-- and makes a later deactivation wait for this transaction. The foreign keys would lock the
-- workspace before the member, so the trigger locks the member itself, directly after the user, as
-- the order of locks demands.
CREATE OR REPLACE FUNCTION check_assignee() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    since timestamptz;
BEGIN
    SELECT person.deactivated_at
      INTO since
      FROM members AS member
      JOIN users AS person ON person.id = member.user_id
     WHERE member.workspace_id = NEW.workspace_id
       AND member.user_id = NEW.assignee_id
       FOR SHARE OF person SKIP LOCKED
       FOR KEY SHARE OF member SKIP LOCKED;
    IF NOT FOUND AND NOT has_all_locks() THEN
        SELECT person.deactivated_at
          INTO since
          FROM members AS member
          JOIN users AS person ON person.id = member.user_id
         WHERE member.workspace_id = NEW.workspace_id
           AND member.user_id = NEW.assignee_id
           FOR SHARE OF person
           FOR KEY SHARE OF member;
    END IF;
    IF NOT FOUND THEN
        RAISE foreign_key_violation
              USING CONSTRAINT = 'assigneeId must be the id of a member of the workspace';
    END IF;
    IF since IS NOT NULL
       AND (TG_OP = 'UPDATE' OR NEW.created_at > since OR NEW.created_at = now_ms())
    THEN
        RAISE check_violation
              USING CONSTRAINT = 'assigneeId must not be the id of a deactivated user';
    END IF;
    RETURN NEW;
END
$$;

-- When the status of a task changes, store who completed the task, or NULL if the task is open now.
-- Releases 1.0.0 and 1.1.0 complete and reopen tasks without knowing the column. The last editor
-- completed the task. If the UPDATE names no editor of the new version, nobody knows who did.
-- PostgreSQL runs triggers in the order of their names. So next_version has already given the
-- UPDATE of an operator a new version, which has no editor.
-- A condition WHEN of the trigger would cost each update more: PostgreSQL compiles it every time.
CREATE OR REPLACE FUNCTION record_completer() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF NEW.status <> OLD.status THEN
        NEW.completed_by := CASE
            WHEN NEW.status = 'done' AND NEW.updated_by_version = NEW.version THEN NEW.updated_by
        END;
    END IF;
    RETURN NEW;
END
$$;

-- Announce that a task has lost its assignee because the assignee has left the workspace. A foreign
-- key makes this change, so no statement of the service could announce it. Nothing is announced if
-- the workspace itself is being deleted.
-- A request that removes a member stores its user in service.actor_id, for the event's actorId.
CREATE OR REPLACE FUNCTION announce_unassigned() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF EXISTS (SELECT FROM workspaces WHERE id = NEW.workspace_id) THEN
        PERFORM announce(
                    NEW.workspace_id,
                    'task.updated',
                    task_json(NEW),
                    nullif(current_setting('service.actor_id', true), '')::uuid,
                    task_json(OLD)
                );
    END IF;
    RETURN NULL;
END
$$;

-- Return the bytes of a task's long texts. They limit the length of a page and the events of a
-- DELETE. PostgreSQL inlines the function, and so knows the size without reading the text. It is
-- STABLE because pg_column_size() is.
CREATE OR REPLACE FUNCTION text_bytes(task tasks) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT coalesce(octet_length(task.description), 0) + coalesce(pg_column_size(task.metadata), 0)
$$;

-- A task, as responses and events show it.
CREATE OR REPLACE FUNCTION task_json(task tasks) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT row_to_json(
               ROW(
                   task.id,
                   task.workspace_id,
                   task.title,
                   task.description,
                   task.status,
                   task.priority,
                   iso(task.due_date),
                   task.due_day,
                   task.assignee_id,
                   task.project_id,
                   task.parent_id,
                   task.created_by,
                   iso(task.created_at),
                   iso(task.updated_at),
                   iso(task.completed_at),
                   task.version,
                   CASE
                       WHEN task.updated_by_version = task.version THEN task.updated_by
                   END,
                   task.completed_by,
                   metadata_json(task.metadata)
               )::task_document_3
           )
$$;

-- Store the fields of a task that requests may change, and return the task with its new version.
-- Only tasks/update calls this. It has locked the assignee, a parent with a lower id and the task.
CREATE OR REPLACE FUNCTION update_task(after tasks, changes jsonb, user_id uuid) RETURNS tasks
LANGUAGE plpgsql
AS $$
BEGIN
    IF changes ?| '{assignee_id,parent_id}' AND NOT has_all_locks() THEN
        PERFORM FROM tasks
          WHERE workspace_id = after.workspace_id
            AND id = after.parent_id
            AND id > after.id
            FOR SHARE;
        PERFORM set_config('service.has_all_locks', 'on', true);
    END IF;
    UPDATE tasks
       SET title = after.title,
           description = after.description,
           status = after.status,
           priority = after.priority,
           due_date = after.due_date,
           -- A new timestamp comes without a day, so the old day is dropped. If a client sends a
           -- task back as it got it, the timestamp is the same, and the task keeps its day.
           due_day = CASE
               WHEN changes ? 'due_day' OR after.due_date = tasks.due_date THEN after.due_day
           END,
           assignee_id = after.assignee_id,
           project_id = after.project_id,
           parent_id = after.parent_id,
           metadata = after.metadata,
           completed_at = CASE
               WHEN after.status <> 'done' THEN NULL
               ELSE coalesce(completed_at, now_ms())
           END,
           updated_at = now_ms(),
           version = version + 1,
           updated_by = user_id,
           updated_by_version = version + 1
     WHERE workspace_id = after.workspace_id
       AND id = after.id
 RETURNING *
      INTO after;
    RETURN after;
END
$$;

-- Insert tasks, in the order of their lines; a subtask comes after its parent. Only load/task calls
-- this.
CREATE OR REPLACE FUNCTION load_tasks(rows json) RETURNS void
LANGUAGE sql
AS $$
    INSERT INTO tasks (
               workspace_id, id, title, description, status, priority, due_date, due_day,
               assignee_id, project_id, parent_id, created_by, created_at, updated_at, completed_at,
               version, updated_by, updated_by_version, completed_by, metadata
           )
    SELECT workspace_id,
           coalesce(id, new_id(coalesce(created_at, clock_timestamp()))),
           title,
           description,
           status,
           priority,
           coalesce(due_date, end_of_day(due_day, workspace_id)),
           due_day,
           assignee_id,
           project_id,
           parent_id,
           created_by,
           coalesce(created_at, now_ms()),
           coalesce(updated_at, created_at, now_ms()),
           CASE
               WHEN status = 'done'
               THEN coalesce(completed_at, updated_at, created_at, now_ms())
           END,
           first,
           last_editor(updated_by, created_by, version, created_at, updated_at),
           first,
           completed_by,
           nullif(metadata, '{}')
      FROM json_populate_recordset(NULL::tasks, rows) WITH ORDINALITY AS item
     CROSS JOIN LATERAL first_version('task', workspace_id, id, version) AS first
     ORDER BY ordinality
$$;
