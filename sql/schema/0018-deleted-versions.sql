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

-- sql/functions/versions.sql has the text.
CREATE FUNCTION keep_deleted_version() RETURNS trigger
LANGUAGE plpgsql
AS 'BEGIN RETURN OLD; END';

CREATE TRIGGER keep_deleted_version
    BEFORE DELETE ON tasks
    FOR EACH ROW
    EXECUTE FUNCTION keep_deleted_version();
