-- The versions of objects, and of deleted objects.

-- Increase the version, even if no statement of the service makes the change: a foreign key changes
-- the row when a member leaves, or an operator runs an UPDATE. A migration in batches sets
-- service.keeps_versions, because its new values are no change of the object that clients know.
CREATE OR REPLACE FUNCTION next_version() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF current_setting('service.keeps_versions', true) = 'on' THEN
        RETURN NEW;
    END IF;
    NEW.version := OLD.version + 1;
    RETURN NEW;
END
$$;

-- Increase the version of a task or a meeting, and set updated_at unless the UPDATE sets it.
-- If the request has stored its user in service.actor_id, as the removal of a member does, this
-- user has made the change. Otherwise an operator has made it, and updatedBy is null.
CREATE OR REPLACE FUNCTION next_dated_version() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF current_setting('service.keeps_versions', true) = 'on' THEN
        RETURN NEW;
    END IF;
    NEW.version := OLD.version + 1;
    IF NEW.updated_at = OLD.updated_at THEN
        NEW.updated_at := now_ms();
    END IF;
    NEW.updated_by := nullif(current_setting('service.actor_id', true), '')::uuid;
    NEW.updated_by_version := NEW.version;
    RETURN NEW;
END
$$;

-- Store the last version of an object that is deleted, whatever release deletes it.
-- The objects of a deleted workspace leave none: delete_rows() sets service.keeps_versions, and at
-- a depth above 1 a foreign key deletes them.
-- A condition WHEN of the trigger would make each deletion dearer, because PostgreSQL compiles the
-- condition every time. So would a trigger that runs after the statement, because PostgreSQL
-- collects the rows for it.
CREATE OR REPLACE FUNCTION keep_deleted_version() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF pg_trigger_depth() = 1
       AND current_setting('service.keeps_versions', true) IS DISTINCT FROM 'on'
    THEN
        INSERT INTO deleted_versions (workspace_id, id, version)
        VALUES (OLD.workspace_id, OLD.id, OLD.version);
    END IF;
    RETURN OLD;
END
$$;

-- Delete what is kept of the objects of a workspace that is being deleted.
-- PostgreSQL runs the triggers of an event in the order of their names, and those of foreign keys,
-- RI_ConstraintTrigger_…, come before this one. They wait for each transaction that is deleting a
-- task or a meeting of the workspace, so this trigger finds the row that such a transaction stores.
CREATE OR REPLACE FUNCTION forget_deleted_versions() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    DELETE FROM deleted_versions
     WHERE workspace_id = OLD.id;
    RETURN NULL;
END
$$;

-- Return the version with which a new object begins: 1, unless the id was chosen, and an object
-- with this id was deleted at that version or a later one. The caller shares the lock of the
-- workspace, so no request can delete the object until the new one is there. If an older release or
-- an operator is deleting it, the function waits, and its last query finds the deletion.
CREATE OR REPLACE FUNCTION first_version(
    type text, workspace_id uuid, id uuid, version integer DEFAULT 1
) RETURNS integer
LANGUAGE plpgsql
AS $$
BEGIN
    IF id IS NULL THEN
        RETURN version;
    END IF;
    IF type = 'task' THEN
        PERFORM FROM tasks
          WHERE tasks.workspace_id = first_version.workspace_id
            AND tasks.id = first_version.id
            FOR KEY SHARE;
    ELSE
        PERFORM FROM meetings
          WHERE meetings.workspace_id = first_version.workspace_id
            AND meetings.id = first_version.id
            FOR KEY SHARE;
    END IF;
    RETURN (
        SELECT greatest(first_version.version, max(deleted.version) + 1)
          FROM deleted_versions AS deleted
         WHERE deleted.workspace_id = first_version.workspace_id
           AND deleted.id = first_version.id
    );
END
$$;

-- Return the objects, among these rows of a load, whose ids belong to deleted objects with the same
-- or a later version, and the versions above those.
-- The command load does not lock the workspace. So it asks this after its INSERT: from then on
-- nobody else can make or delete an object with such an id.
CREATE OR REPLACE FUNCTION versions_after_deletion(rows json)
RETURNS TABLE (workspace_id uuid, id uuid, version integer)
LANGUAGE sql STABLE
AS $$
    SELECT item.workspace_id, item.id, deleted.version + 1
      FROM json_to_recordset(rows) AS item (workspace_id uuid, id uuid, version integer)
     CROSS JOIN LATERAL (
           SELECT max(version) AS version
             FROM deleted_versions
            WHERE deleted_versions.workspace_id = item.workspace_id
              AND deleted_versions.id = item.id
           ) AS deleted
     WHERE deleted.version >= item.version
$$;

-- Return the user who made the last change of a loaded object. If its line has no updatedBy, but
-- shows that nothing has changed the object, the author made the last change.
CREATE OR REPLACE FUNCTION last_editor(
    updated_by uuid,
    created_by uuid,
    version integer,
    created_at timestamptz,
    updated_at timestamptz
) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
               WHEN updated_by IS NULL
                AND version = 1
                AND coalesce(updated_at = created_at, updated_at IS NULL)
               THEN created_by
               ELSE updated_by
           END
$$;
