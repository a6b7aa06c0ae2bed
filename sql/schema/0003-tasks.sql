-- Tasks; a subtask is a task with a parent, one level deep.

-- PostgreSQL reads and compiles the CHECKs of a table anew in each statement that writes a row, and
-- keeps those of a type: as checks of the table, these five took a fifth of the work of an INSERT.
-- The one that compares two columns is in the trigger check_parent.
CREATE DOMAIN task_title AS text
    CONSTRAINT "title must have 1 to 500 characters"
    CHECK (length(value) BETWEEN 1 AND 500);
CREATE DOMAIN task_description AS text
    CONSTRAINT "description must have at most 65536 characters"
    CHECK (length(value) <= 65536);
CREATE DOMAIN task_status AS text
    CONSTRAINT "status must be one of: todo, in_progress, done"
    CHECK (value IN ('todo', 'in_progress', 'done'));
CREATE DOMAIN task_priority AS text
    CONSTRAINT "priority must be one of: urgent, high, medium, low"
    CHECK (value IN ('urgent', 'high', 'medium', 'low'));
CREATE DOMAIN project_id AS text
    CONSTRAINT "projectId must have 1 to 128 characters"
    CHECK (length(value) BETWEEN 1 AND 128);

-- A day can end outside of these years in UTC: PostgreSQL knows the timezone, and so the moment.
CREATE DOMAIN due_date AS timestamptz
    CONSTRAINT "dueDate must be in the years 1900 to 9998 (UTC)"
    CHECK (value >= '1900-01-01T00:00:00Z' AND value < '9999-01-01T00:00:00Z');
CREATE DOMAIN due_day AS date
    CONSTRAINT "dueDay must be in the years 1900 to 9998"
    CHECK (value >= '1900-01-01' AND value < '9999-01-01');

CREATE TABLE tasks (
    workspace_id uuid NOT NULL
        REFERENCES workspaces (id) ON DELETE CASCADE,
    id uuid NOT NULL DEFAULT new_id(),
    title task_title NOT NULL,
    description task_description,
    status task_status NOT NULL DEFAULT 'todo',
    priority task_priority NOT NULL DEFAULT 'medium',
    due_date due_date,
    -- The day, if the due date was given as one. The moment is then the end of that day in the
    -- timezone that the workspace had; another timezone moves neither.
    due_day due_day,
    assignee_id uuid,
    project_id project_id,
    parent_id uuid,
    -- No foreign key: the id of the author stays after the user has left.
    created_by uuid NOT NULL,
    created_at timestamp_ms NOT NULL DEFAULT now_ms(),
    updated_at timestamp_ms NOT NULL DEFAULT now_ms(),
    completed_at timestamp_ms,
    version integer NOT NULL DEFAULT 1,
    PRIMARY KEY (workspace_id, id),
    CONSTRAINT "assigneeId must be the id of a member of the workspace"
        FOREIGN KEY (workspace_id, assignee_id) REFERENCES members (workspace_id, user_id)
        ON DELETE SET NULL (assignee_id),
    CONSTRAINT "parentId must be the id of a task of the workspace"
        FOREIGN KEY (workspace_id, parent_id) REFERENCES tasks (workspace_id, id)
-- Space on new pages, so that a change of a column without an index changes no index (HOT).
) WITH (fillfactor = 90);

-- One index per filter, so that PostgreSQL finds rare values without reading other tasks.
-- That of the status also finds the tasks without a date among many that have one.
CREATE INDEX tasks_by_status ON tasks (workspace_id, status, id, due_date);
CREATE INDEX tasks_by_due_date ON tasks (workspace_id, status, due_date, id)
 WHERE due_date IS NOT NULL;
CREATE INDEX tasks_by_priority ON tasks (workspace_id, priority, id);
CREATE INDEX tasks_by_assignee ON tasks (workspace_id, assignee_id, id);
CREATE INDEX tasks_by_project ON tasks (workspace_id, project_id, id)
 WHERE project_id IS NOT NULL;
CREATE INDEX tasks_by_parent ON tasks (workspace_id, parent_id, id)
 WHERE parent_id IS NOT NULL;

-- The last millisecond of a day in the timezone of a workspace. PL/pgSQL is not inlined: the
-- statements that call this for a day do not read the workspace for a timestamp.
CREATE FUNCTION end_of_day(day date, workspace_id uuid) RETURNS timestamptz
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RETURN (
        SELECT beginning_of_day(day + 1, workspace.timezone) - interval '1 millisecond'
          FROM workspaces AS workspace
         WHERE workspace.id = end_of_day.workspace_id
    );
END
$$;

-- The moment of a bound of due dates or meetings: a timestamp, or the beginning of a day.
CREATE FUNCTION time_bound(bound text, workspace_id uuid) RETURNS timestamptz
LANGUAGE sql STABLE
AS $$
    SELECT CASE length(bound)
               WHEN 10 THEN end_of_day(bound::date - 1, workspace_id) + interval '1 millisecond'
               ELSE bound::timestamptz
           END
$$;

-- Whether a range with these bounds, of which each may be NULL, has moments.
CREATE FUNCTION in_order(lower_bound text, upper_bound text, workspace_id uuid) RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT coalesce(
               time_bound(lower_bound, workspace_id) < time_bound(upper_bound, workspace_id), true
           )
$$;

-- The filters of the list that PostgreSQL inlines and plans for their values; NULL filters nothing.
-- For one value, = lets an index on the column provide the order too.
CREATE FUNCTION is_any(item text, list text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE cardinality(list)
               WHEN 1 THEN item = list[1]
               ELSE list IS NULL OR item = ANY (list)
           END
$$;

CREATE FUNCTION matches(
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
       AND (assignee IS NULL
            OR CASE assignee
                   WHEN 'none' THEN task.assignee_id IS NULL
                   WHEN 'me' THEN task.assignee_id = user_id
                   ELSE task.assignee_id = assignee::uuid
               END)
       AND (matches.project_id IS NULL OR task.project_id = matches.project_id)
       AND (matches.parent_id IS NULL
            OR CASE matches.parent_id
                   WHEN 'none' THEN task.parent_id IS NULL
                   ELSE task.parent_id = matches.parent_id::uuid
               END)
$$;

CREATE TRIGGER next_version
    BEFORE UPDATE ON tasks
    FOR EACH ROW
    WHEN (NEW.version = OLD.version AND NEW IS DISTINCT FROM OLD)
    EXECUTE FUNCTION next_dated_version();

-- Allow two levels only, and no task as its own parent. The trigger runs when a task gets a new
-- parent, and locks that parent, so that the parent cannot become a subtask at the same time.
CREATE FUNCTION check_parent() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    grandparent_id uuid;
BEGIN
    IF NEW.parent_id = NEW.id THEN
        RAISE check_violation USING CONSTRAINT = 'parentId must be another task';
    END IF;
    SELECT parent.parent_id
      INTO grandparent_id
      FROM tasks AS parent
     WHERE parent.workspace_id = NEW.workspace_id
       AND parent.id = NEW.parent_id
       FOR SHARE;
    IF grandparent_id IS NOT NULL THEN
        RAISE check_violation USING CONSTRAINT = 'parentId must not be the id of a subtask';
    END IF;
    PERFORM FROM tasks AS subtask
      WHERE subtask.workspace_id = NEW.workspace_id
        AND subtask.parent_id = NEW.id;
    IF FOUND THEN
        RAISE check_violation USING CONSTRAINT = 'parentId must be null for a task with subtasks';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER check_parent_of_new
    BEFORE INSERT ON tasks
    FOR EACH ROW
    WHEN (NEW.parent_id IS NOT NULL)
    EXECUTE FUNCTION check_parent();

CREATE TRIGGER check_parent_of_moved
    BEFORE UPDATE ON tasks
    FOR EACH ROW
    WHEN (NEW.parent_id IS NOT NULL AND NEW.parent_id IS DISTINCT FROM OLD.parent_id)
    EXECUTE FUNCTION check_parent();

-- Assign nothing new to a deactivated user. A task that was created before may be loaded with this
-- assignee; one that this transaction creates may not, even if it began before the deactivation, or
-- in the same millisecond. A user outside of the workspace is rejected by the foreign key, in any
-- state. The lock waits for a deactivation that has not ended, and a deactivation for the end of
-- this transaction. The foreign keys would lock the workspace before the member, so the member is
-- locked here, after the user, in the order of locks.
CREATE FUNCTION check_assignee() RETURNS trigger
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
       FOR SHARE OF person
       FOR KEY SHARE OF member;
    IF since IS NOT NULL
       AND (TG_OP = 'UPDATE' OR NEW.created_at > since OR NEW.created_at = now_ms())
    THEN
        RAISE check_violation
              USING CONSTRAINT = 'assigneeId must not be the id of a deactivated user';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER check_assignee_of_new
    BEFORE INSERT ON tasks
    FOR EACH ROW
    WHEN (NEW.assignee_id IS NOT NULL)
    EXECUTE FUNCTION check_assignee();

CREATE TRIGGER check_assignee_of_changed
    BEFORE UPDATE OF assignee_id ON tasks
    FOR EACH ROW
    WHEN (NEW.assignee_id IS NOT NULL AND NEW.assignee_id IS DISTINCT FROM OLD.assignee_id)
    EXECUTE FUNCTION check_assignee();

-- When an assignee leaves the workspace, a foreign key updates the task, and no statement of the
-- service runs. This trigger announces that change, unless the workspace itself is being deleted.
-- A request that removes a member says by service.actor_id whose it is.
CREATE FUNCTION announce_unassigned() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF EXISTS (SELECT FROM workspaces WHERE workspaces.id = NEW.workspace_id) THEN
        PERFORM announce(
                    NEW.workspace_id,
                    'task.updated',
                    task_json(NEW),
                    nullif(current_setting('service.actor_id', true), '')::uuid,
                    '["assigneeId"]'
                );
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER announce_unassigned
    AFTER UPDATE OF assignee_id ON tasks
    FOR EACH ROW
    WHEN (OLD.assignee_id IS NOT NULL AND NEW.assignee_id IS NULL AND pg_trigger_depth() > 0)
    EXECUTE FUNCTION announce_unassigned();

-- The bytes of the long texts of a task, which bound pages and the events of a DELETE. PostgreSQL
-- inlines the function, and so knows the sizes without reading the texts.
CREATE FUNCTION text_bytes(task tasks) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT octet_length(task.description)
$$;

-- A task in responses and events.
CREATE TYPE task_document AS (
    "id" uuid,
    "workspaceId" uuid,
    "title" text,
    "description" text,
    "status" text,
    "priority" text,
    "dueDate" text,
    "dueDay" date,
    "assigneeId" uuid,
    "projectId" text,
    "parentId" uuid,
    "createdBy" uuid,
    "createdAt" text,
    "updatedAt" text,
    "completedAt" text,
    "version" integer
);

CREATE FUNCTION task_json(task tasks) RETURNS json
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
                   task.version
               )::task_document
           )
$$;
