-- The last versions of deleted tasks and meetings. A client, or the command load, may make a
-- deleted id again. The new object then begins above the last version of the deleted one, so that
-- an id and a version name one state, and an old ETag matches nothing of the new object.

-- An id may have several rows: the object was deleted more than once, or a task and a meeting had
-- the same id. The highest version counts, for either kind.
-- There are no keys, because their checks would make each deletion dearer. When a workspace is
-- deleted, a trigger deletes its rows. The worker deletes rows that are 400 days old.
CREATE TABLE deleted_versions (
    workspace_id uuid NOT NULL,
    id uuid NOT NULL,
    version integer NOT NULL,
    deleted_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX deleted_versions_by_id ON deleted_versions (workspace_id, id);

-- Store the last versions of the objects that a statement has deleted, whatever release runs it.
CREATE FUNCTION keep_deleted_versions() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO deleted_versions (workspace_id, id, version)
    SELECT workspace_id, id, version
      FROM deleted;
    RETURN NULL;
END
$$;

-- Return the version with which an object with a chosen id begins: the given one, unless an object
-- with this id was deleted at that version or a later one.
-- If another transaction is deleting the object now, the function waits for the end of that
-- transaction. Its last query then has a new snapshot, and finds the row of the deletion.
CREATE FUNCTION first_version(
    type text, workspace_id uuid, id uuid, version integer DEFAULT 1
) RETURNS integer
LANGUAGE plpgsql
AS $$
BEGIN
    IF type = 'task' THEN
        PERFORM FROM tasks AS task
          WHERE task.workspace_id = first_version.workspace_id
            AND task.id = first_version.id
            FOR KEY SHARE;
    ELSE
        PERFORM FROM meetings AS meeting
          WHERE meeting.workspace_id = first_version.workspace_id
            AND meeting.id = first_version.id
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

-- At a depth above 0, a foreign key deletes the tasks of a deleted workspace.
CREATE TRIGGER keep_deleted_versions
    AFTER DELETE ON tasks
    REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT
    WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION keep_deleted_versions();
