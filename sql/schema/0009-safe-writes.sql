-- Idempotency keys with their responses, and a version for each change of a resource.

-- A key is stored while its first request runs and for a day after it. A second request with the
-- key waits at the primary key until the first one has committed, and then reads its response.
CREATE TABLE idempotency_keys (
    -- The nil workspace if the caller has no active one; hence no foreign key.
    workspace_id uuid NOT NULL,
    user_id uuid NOT NULL,
    key text NOT NULL
        CHECK (length(key) BETWEEN 1 AND 255),
    -- SHA-256 of method, path and body.
    fingerprint bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    status integer,
    headers jsonb,
    body text,
    PRIMARY KEY (workspace_id, user_id, key)
);

CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- When a membership ends, delete its usage and its keys, and those keys of the user in other
-- workspaces whose stored response contains the id of this workspace.
CREATE FUNCTION delete_keys_of_member() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    DELETE FROM usage AS counted
     WHERE counted.workspace_id = OLD.workspace_id
       AND counted.subject = OLD.user_id::text;
    DELETE FROM idempotency_keys AS stored
     USING (
           SELECT OLD.workspace_id AS workspace_id
            UNION ALL
           SELECT '00000000-0000-0000-0000-000000000000'
            UNION ALL
           SELECT member.workspace_id
             FROM members AS member
            WHERE member.user_id = OLD.user_id
           ) AS used
     WHERE stored.workspace_id = used.workspace_id
       AND stored.user_id = OLD.user_id
       AND (
               stored.workspace_id = OLD.workspace_id
               OR stored.body LIKE '%' || OLD.workspace_id || '%'
           );
    RETURN NULL;
END
$$;

CREATE TRIGGER delete_keys_of_member
    AFTER DELETE ON members
    FOR EACH ROW
    EXECUTE FUNCTION delete_keys_of_member();

-- Increase the version also for changes that the service's statements do not make: by a foreign key
-- when a member leaves, or by an operator's UPDATE.
CREATE FUNCTION next_version() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    NEW.version := OLD.version + 1;
    RETURN NEW;
END
$$;

CREATE TRIGGER next_version
    BEFORE UPDATE ON tasks
    FOR EACH ROW
    WHEN (NEW.version = OLD.version AND NEW IS DISTINCT FROM OLD)
    EXECUTE FUNCTION next_version();

CREATE TRIGGER next_version
    BEFORE UPDATE ON meetings
    FOR EACH ROW
    WHEN (NEW.version = OLD.version AND NEW IS DISTINCT FROM OLD)
    EXECUTE FUNCTION next_version();

CREATE TRIGGER next_version
    BEFORE UPDATE ON workspaces
    FOR EACH ROW
    WHEN (NEW.version = OLD.version AND NEW IS DISTINCT FROM OLD)
    EXECUTE FUNCTION next_version();

-- The number of members is part of a workspace, so each new or removed member is a new version.
CREATE FUNCTION count_members_anew() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE workspaces AS workspace
       SET version = workspace.version + 1
     WHERE workspace.id IN (SELECT workspace_id FROM changed);
    RETURN NULL;
END
$$;

CREATE TRIGGER count_members_anew_after_joining
    AFTER INSERT ON members
    REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT
    EXECUTE FUNCTION count_members_anew();

CREATE TRIGGER count_members_anew_after_leaving
    AFTER DELETE ON members
    REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT
    EXECUTE FUNCTION count_members_anew();

-- When an assignee leaves the workspace, a foreign key updates the task, and no statement of the
-- service runs. This trigger announces that change, unless the workspace itself is being deleted.
CREATE FUNCTION announce_unassigned() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF EXISTS (SELECT FROM workspaces WHERE workspaces.id = NEW.workspace_id) THEN
        PERFORM announce(NEW.workspace_id, 'task.updated', task_json(NEW));
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER announce_unassigned
    AFTER UPDATE OF assignee_id ON tasks
    FOR EACH ROW
    WHEN (OLD.assignee_id IS NOT NULL AND NEW.assignee_id IS NULL AND pg_trigger_depth() > 0)
    EXECUTE FUNCTION announce_unassigned();
