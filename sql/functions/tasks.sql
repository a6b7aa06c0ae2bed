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
-- id.
CREATE OR REPLACE FUNCTION is_chosen(id uuid, filter text, user_id uuid) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE filter
               WHEN 'none' THEN id IS NULL
               WHEN 'me' THEN id = user_id
               ELSE filter IS NULL OR id = filter::uuid
           END
$$;

-- Allow two levels of tasks only, and no task as its own parent. The trigger runs when a task gets
-- a new parent. Requests change parents only while they have the workspace alone. The lock on the
-- parent is for load and older releases, and keeps the parent from becoming a subtask.
-- The trigger fails if there is no parent yet, even if the statement inserts it later. The foreign
-- key, which looks at the end, might find one that another transaction has made as a subtask.
CREATE OR REPLACE FUNCTION check_parent() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    grandparent_id uuid;
BEGIN
    IF NEW.parent_id = NEW.id THEN
        RAISE check_violation USING CONSTRAINT = 'parentId must be another task';
    END IF;
    SELECT parent_id
      INTO grandparent_id
      FROM tasks
     WHERE workspace_id = NEW.workspace_id
       AND id = NEW.parent_id
       FOR SHARE;
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

-- Reject a new assignment to a deactivated user.
-- The command load may insert an older task of a deactivated assignee: created_at of the task must
-- lie before the deactivation. A task that this transaction creates is rejected, even if the
-- transaction began before the deactivation or in the same millisecond. As in check_parent(), the
-- foreign key might find a member who has joined later, so the trigger fails if there is none.
-- No lock is needed: a deactivation waits for the writes that run, see finish_deactivation().
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
       AND member.user_id = NEW.assignee_id;
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

-- When the status of a task changes, store who completed the task and when, or NULL if the task is
-- open now. The service sets the time itself; an UPDATE of an operator may forget it.
-- Releases 1.0.0 and 1.1.0 complete and reopen tasks without knowing the column. The last editor
-- completed the task. If the UPDATE names no editor of the new version, nobody knows who did.
-- PostgreSQL runs triggers in the order of their names. So next_version has already given the
-- UPDATE of an operator a new version, which has no editor.
-- The trigger has no condition WHEN, for the same reason as that of keep_deleted_version().
CREATE OR REPLACE FUNCTION record_completer() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF NEW.status <> OLD.status THEN
        NEW.completed_by := CASE
            WHEN NEW.status = 'done' AND NEW.updated_by_version = NEW.version THEN NEW.updated_by
        END;
        NEW.completed_at := CASE
            WHEN NEW.status = 'done' THEN coalesce(NEW.completed_at, now_ms())
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

-- Return the bytes of a task's long texts, for fits_page(), and for the limits of a DELETE and of a
-- batch. The function is STABLE because pg_column_size() is.
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

-- Change the fields of a task that the changes name, and announce the change. If no value changes,
-- or the task has none of these versions, write nothing.
-- Return the task, or NULLs if there is none.
CREATE OR REPLACE FUNCTION change_task(
    workspace_id uuid,
    id uuid,
    changes jsonb,
    versions int4multirange,
    user_id uuid,
    token_id uuid,
    OUT body json,
    OUT version integer,
    OUT matched boolean,
    OUT event_id uuid
)
LANGUAGE plpgsql
AS $$
DECLARE
    before tasks;
    after tasks;
BEGIN
    IF changes ? 'parent_id' THEN
        PERFORM lock_workspace(workspace_id, token_id);
    ELSE
        PERFORM share_workspace(workspace_id, token_id);
    END IF;
    SELECT *
      INTO before
      FROM tasks
     WHERE tasks.workspace_id = change_task.workspace_id
       AND tasks.id = change_task.id
       FOR NO KEY UPDATE;
    matched := before.version <@ versions;
    after := before;
    -- A precondition that fails comes before metadata that is too long.
    IF matched THEN
        after := jsonb_populate_record(before, with_metadata(changes, before.metadata));
    END IF;
    IF after IS DISTINCT FROM before THEN
        UPDATE tasks
           SET title = after.title,
               description = after.description,
               status = after.status,
               priority = after.priority,
               due_date = after.due_date,
               -- A new timestamp comes without a day, so the old day is dropped. If a client sends
               -- a task back as it got it, the timestamp is the same, and the task keeps its day.
               due_day = CASE
                   WHEN changes ? 'due_day' OR after.due_date = before.due_date THEN after.due_day
               END,
               assignee_id = after.assignee_id,
               project_id = after.project_id,
               parent_id = after.parent_id,
               metadata = after.metadata,
               completed_at = CASE
                   WHEN after.status <> 'done' THEN NULL
                   ELSE coalesce(before.completed_at, now_ms())
               END,
               updated_at = now_ms(),
               version = before.version + 1,
               updated_by = user_id,
               updated_by_version = before.version + 1
         WHERE tasks.workspace_id = change_task.workspace_id
           AND tasks.id = change_task.id
     RETURNING *
          INTO after;
        IF EXISTS (SELECT FROM feeds WHERE feeds.workspace_id = change_task.workspace_id) THEN
            body := task_json(after);
            event_id := announce(workspace_id, 'task.updated', body, user_id, task_json(before));
        END IF;
    END IF;
    body := coalesce(body, task_json(after));
    version := after.version;
END
$$;

-- Delete a task with its subtasks, and announce the last state of each, subtasks first. Delete
-- nothing if the task has none of these versions. If somebody listens, also delete nothing if
-- writing the events would take too long: with more than 10 000 subtasks, 20 000 deliveries to
-- webhooks, or 16 MiB of text.
-- Return the version of the task, or NULLs if there is none; if the version does not match, return
-- the task.
CREATE OR REPLACE FUNCTION delete_task(
    workspace_id uuid,
    id uuid,
    versions int4multirange,
    user_id uuid,
    token_id uuid,
    OUT version integer,
    OUT matched boolean,
    OUT body json,
    OUT deletable boolean,
    OUT event_ids uuid[]
)
LANGUAGE plpgsql
AS $$
DECLARE
    task tasks;
    webhooks bigint;
    is_announced boolean;
BEGIN
    PERFORM lock_workspace(workspace_id, token_id);
    SELECT *
      INTO task
      FROM tasks
     WHERE tasks.workspace_id = delete_task.workspace_id
       AND tasks.id = delete_task.id
       FOR UPDATE;
    version := task.version;
    matched := task.version <@ versions;
    IF matched IS NOT true THEN
        body := task_json(task);
        RETURN;
    END IF;
    SELECT enabled_webhooks(feeds.workspace_id), read_at IS NOT NULL
      INTO webhooks, is_announced
      FROM feeds
     WHERE feeds.workspace_id = delete_task.workspace_id;
    is_announced := coalesce(is_announced OR webhooks > 0, false);
    deletable := NOT is_announced OR (
        SELECT count(*) <= 10000
               AND (count(*) + 1) * webhooks <= 20000
               AND coalesce(sum(text_bytes(subtask)), 0) <= 16777216
          FROM tasks AS subtask
         WHERE subtask.workspace_id = delete_task.workspace_id
           AND parent_id = delete_task.id
    );
    IF deletable THEN
        WITH deleted AS (
            DELETE FROM tasks
             WHERE tasks.workspace_id = delete_task.workspace_id
               AND (tasks.id = delete_task.id OR parent_id = delete_task.id)
         RETURNING *
        )
        SELECT ARRAY(
                   SELECT announce(
                              delete_task.workspace_id,
                              'task.deleted',
                              task_json(deleted::tasks),
                              user_id
                          )
                     FROM deleted
                    WHERE is_announced
                    ORDER BY parent_id IS NULL, deleted.id DESC
               )
          INTO event_ids;
    END IF;
END
$$;

-- Lock what a batch needs. Return the ids of the tasks to change or to delete that do not exist,
-- and whether the batch fits: the other tasks, with the subtasks of those to delete, have at most
-- 4 MiB of JSON, since the response, the events and the errors show them whole, and make at most
-- 20 000 deliveries to webhooks.
-- The batches of a workspace run one after another. A batch that deletes tasks or changes parents
-- (is_alone) has the workspace alone. Any other batch shares it with single writes. It locks the
-- tasks that it changes before it creates others: a POST may hold such a task, as the parent of its
-- own, and then wait for an id that the batch has created.
-- The lock of batches comes before that of the workspace. So at most one batch shares the
-- workspace, and whoever wants it alone waits for this one only.
CREATE OR REPLACE FUNCTION begin_batch(
    workspace_id uuid,
    ids uuid[],
    deleted_ids uuid[],
    is_alone boolean,
    token_id uuid,
    OUT missing uuid[],
    OUT fits boolean
)
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(8, uuid_hash(workspace_id));
    IF is_alone THEN
        PERFORM lock_workspace(workspace_id, token_id);
    ELSE
        PERFORM share_workspace(workspace_id, token_id);
    END IF;
    PERFORM FROM tasks
      WHERE tasks.workspace_id = begin_batch.workspace_id
        AND id = ANY (ids)
        FOR NO KEY UPDATE;
    -- The JSON of a task is never shorter than its texts, so the function makes no JSON of tasks
    -- whose texts alone are too long.
    WITH concerned AS MATERIALIZED (
        SELECT *
          FROM tasks
         WHERE tasks.workspace_id = begin_batch.workspace_id
           AND (id = ANY (ids) OR parent_id = ANY (deleted_ids))
    )
    SELECT ARRAY(SELECT unnest(ids) EXCEPT SELECT id FROM concerned),
           CASE
               WHEN coalesce(sum(text_bytes(concerned::tasks)), 0) <= 4194304
                AND count(*) * enabled_webhooks(begin_batch.workspace_id) <= 20000
               THEN (
                        SELECT coalesce(sum(octet_length(task_json(concerned::tasks)::text)), 0)
                               <= 4194304
                          FROM concerned
                    )
               ELSE false
           END
      INTO missing, fits
      FROM concerned;
END
$$;

-- Insert tasks, in the order of their lines; a subtask comes after its parent. Only load/task calls
-- this.
CREATE OR REPLACE FUNCTION load_tasks(rows json) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
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
           version,
           last_editor(updated_by, created_by, version, created_at, updated_at),
           version,
           completed_by,
           nullif(metadata, '{}')
      FROM json_populate_recordset(NULL::tasks, rows) WITH ORDINALITY AS item
     ORDER BY ordinality;
    UPDATE tasks AS task
       SET version = after.version,
           updated_by_version = after.version
      FROM versions_after_deletion(rows) AS after
     WHERE task.workspace_id = after.workspace_id
       AND task.id = after.id;
END
$$;
