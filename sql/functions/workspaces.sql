-- Workspaces, and the lock of each, which a write takes first.

-- The rule: a write takes the lock of its workspace before it reads or locks a row. It shares the
-- lock if it then waits for one row at most (a POST of a task or a meeting, a PATCH without
-- parentId). Otherwise it has the lock alone (a DELETE, a PATCH with parentId, members, webhooks,
-- the first reader of the feed, the end of a workspace or of a user).
-- So no two writes wait for each other: whoever has the lock alone meets nobody, and whoever shares
-- it holds no row while it waits for one. A batch is the exception, see begin_batch(). A
-- transaction that shares the lock must not ask for it alone.
-- The queue of this lock is first in, first out, unlike that of a row, so new sharers cannot pass a
-- write that waits for the lock alone. The lock ends with the transaction, before events are
-- posted. Reads and the gate do not take it. After it come users, then members, because users
-- belong to several workspaces; everything else in any order.
-- The command load does not take it, because it may run for minutes, and whoever has the workspace
-- alone may wait for its rows. The row of a parent keeps it apart from requests, and it raises the
-- versions of its objects after it has inserted them.
-- A statement that has waited still has its old snapshot. So what must be true when a write happens
-- is read after the lock by a function in PL/pgSQL, in which each statement has a new snapshot.
-- The lock is an advisory lock with two keys, 7 and a hash of the id. Workspaces with the same hash
-- only wait for each other; whoever locks several takes them in the order of the hash.

-- Lock a workspace for this transaction alone, and return its id. Fail if the transaction had to
-- wait and the credential of the request is no longer one of a member: "Workspace not found". Fail
-- too if the workspace is frozen. An operator has no credential: token_id is NULL. PostgreSQL
-- inlines this function and the next.
CREATE OR REPLACE FUNCTION lock_workspace(
    workspace_id uuid, token_id uuid DEFAULT NULL
) RETURNS uuid
LANGUAGE sql
AS $$
    SELECT CASE pg_try_advisory_xact_lock(7, uuid_hash(workspace_id))
               WHEN false THEN await_workspace(workspace_id, token_id, false)
               ELSE writable_workspace(workspace_id, token_id)
           END
$$;

-- The same, but share the lock.
CREATE OR REPLACE FUNCTION share_workspace(
    workspace_id uuid, token_id uuid DEFAULT NULL
) RETURNS uuid
LANGUAGE sql
AS $$
    SELECT CASE pg_try_advisory_xact_lock_shared(7, uuid_hash(workspace_id))
               WHEN false THEN await_workspace(workspace_id, token_id, true)
               ELSE writable_workspace(workspace_id, token_id)
           END
$$;

-- Wait for the lock of a workspace, and read the role afterwards.
CREATE OR REPLACE FUNCTION await_workspace(workspace_id uuid, token_id uuid, is_shared boolean)
RETURNS uuid
LANGUAGE plpgsql
AS $$
BEGIN
    IF is_shared THEN
        PERFORM pg_advisory_xact_lock_shared(7, uuid_hash(workspace_id));
    ELSE
        PERFORM pg_advisory_xact_lock(7, uuid_hash(workspace_id));
    END IF;
    IF present_role(token_id, workspace_id) IS NULL THEN
        RAISE no_data_found USING MESSAGE = 'Workspace not found';
    END IF;
    RETURN writable_workspace(workspace_id, token_id);
END
$$;

-- Return the id of a workspace that this transaction has locked. Fail if it is frozen, unless an
-- operator writes.
CREATE OR REPLACE FUNCTION writable_workspace(workspace_id uuid, token_id uuid) RETURNS uuid
LANGUAGE plpgsql
AS $$
DECLARE
    place text;
BEGIN
    IF token_id IS NOT NULL THEN
        place := (SELECT moves_to FROM workspaces WHERE id = workspace_id);
        IF place IS NOT NULL THEN
            RAISE SQLSTATE 'TMW01' USING MESSAGE = 'The workspace is frozen', DETAIL = place;
        END IF;
    END IF;
    RETURN workspace_id;
END
$$;

-- Lock all workspaces of a user for this transaction alone, and return their ids.
CREATE OR REPLACE FUNCTION lock_workspaces_of(user_id uuid) RETURNS uuid[]
LANGUAGE plpgsql
AS $$
BEGIN
    RETURN ARRAY(
        SELECT lock_workspace(workspace_id)
          FROM (
               SELECT workspace_id
                 FROM members
                WHERE members.user_id = lock_workspaces_of.user_id
                ORDER BY uuid_hash(workspace_id)
               ) AS membership
    );
END
$$;

-- Change the fields of a workspace that the changes name, if the credential is one of an owner or
-- an admin. If no value changes, or the workspace has none of these versions, write nothing. Return
-- the workspace, or NULLs if it is not one of the caller's.
CREATE OR REPLACE FUNCTION change_workspace(
    workspace_id uuid,
    changes jsonb,
    versions int4multirange,
    token_id uuid,
    OUT body json,
    OUT version integer,
    OUT permitted boolean,
    OUT matched boolean
)
LANGUAGE plpgsql
AS $$
DECLARE
    before workspaces;
    after workspaces;
    role text := present_role(token_id, workspace_id);
BEGIN
    IF role IS NULL THEN
        RETURN;
    END IF;
    PERFORM share_workspace(workspace_id, token_id);
    SELECT * INTO before FROM workspaces WHERE id = workspace_id FOR NO KEY UPDATE;
    role := present_role(token_id, workspace_id);
    permitted := role IN ('owner', 'admin');
    matched := before.version <@ versions;
    after := before;
    IF permitted AND matched THEN
        after := jsonb_populate_record(before, changes);
    END IF;
    IF after IS DISTINCT FROM before THEN
        UPDATE workspaces
           SET name = after.name,
               timezone = after.timezone,
               version = before.version + 1
         WHERE id = workspace_id
     RETURNING *
          INTO after;
    END IF;
    body := workspace_details(after);
    version := after.version;
END
$$;

-- End all memberships of a workspace that is to be deleted, so that from then on no request finds
-- it. The tasks lose their assignees first, because that may take long: the users, whom other
-- workspaces need too, are locked only at the end. Nothing is announced, and no version changes.
CREATE OR REPLACE FUNCTION end_memberships(workspace_id uuid) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM lock_workspace(workspace_id);
    PERFORM set_config('service.keeps_versions', 'on', true);
    UPDATE tasks
       SET assignee_id = NULL
     WHERE tasks.workspace_id = end_memberships.workspace_id
       AND assignee_id IS NOT NULL;
    PERFORM FROM users
      WHERE id IN (
                SELECT user_id
                  FROM members
                 WHERE members.workspace_id = end_memberships.workspace_id
            )
      ORDER BY id
        FOR NO KEY UPDATE;
    DELETE FROM members
     WHERE members.workspace_id = end_memberships.workspace_id;
END
$$;

-- Delete at most this number of rows of a workspace whose memberships have ended, and return how
-- many were deleted. The rows of the other tables are few, or go with these.
CREATE OR REPLACE FUNCTION delete_rows(workspace_id uuid, number integer) RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    tablename text;
    deleted bigint;
BEGIN
    PERFORM lock_workspace(workspace_id);
    PERFORM set_config('service.keeps_versions', 'on', true);
    FOREACH tablename IN ARRAY
        '{events,tasks,meetings,mail,knowledge,deleted_versions}'::text[]
    LOOP
        EXECUTE format(
            'DELETE FROM %1$I WHERE ctid = ANY (ARRAY('
            'SELECT ctid FROM %1$I WHERE workspace_id = $1 %2$s LIMIT $2))',
            tablename,
            -- Subtasks first, because they refer to their parents.
            CASE tablename WHEN 'tasks' THEN 'ORDER BY parent_id IS NULL' END
        ) USING workspace_id, number;
        GET DIAGNOSTICS deleted = ROW_COUNT;
        IF deleted > 0 THEN
            RETURN deleted;
        END IF;
    END LOOP;
    RETURN 0;
END
$$;

-- A workspace in lists.
CREATE OR REPLACE FUNCTION workspace_json(workspace workspaces) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT row_to_json(
               ROW(
                   workspace.id,
                   workspace.name,
                   workspace.slug,
                   workspace.plan,
                   workspace.member_count,
                   iso(workspace.created_at)
               )::workspace_document
           )
$$;

-- A single workspace: the fields that a list shows, and the timezone.
CREATE OR REPLACE FUNCTION workspace_details(workspace workspaces) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT json_join(
               workspace_json(workspace),
               row_to_json(ROW(workspace.timezone)::workspace_setting_document)
           )
$$;
