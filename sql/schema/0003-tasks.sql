-- Tasks; a subtask is a task with a parent, one level deep.

-- The checks of single columns are domains because PostgreSQL caches the checks of a type. The
-- checks of a table it reads and compiles again for every statement that writes a row: as checks of
-- the table, these five took a fifth of the work of an INSERT.
-- The check that compares two columns is in the trigger check_parent.
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

-- These checks are in the database because a day can end in another year in UTC: only PostgreSQL,
-- which knows the timezone, computes that moment.
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
    -- The day, if the client gave the due date as a day. due_date is then the end of that day in
    -- the timezone that the workspace had at that time. If the workspace gets another timezone
    -- later, both columns keep their values.
    due_day due_day,
    assignee_id uuid,
    project_id project_id,
    parent_id uuid,
    -- There is no foreign key because the author's id stays after the author has left.
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
-- Leave space on new pages, so that a change of a column without an index can stay on the page of
-- the row and changes no index (HOT).
) WITH (fillfactor = 90);

-- One index per filter, so that PostgreSQL finds the tasks with a rare value without reading other
-- tasks. tasks_by_status also serves the undated part of sort=dueDate.
CREATE INDEX tasks_by_status ON tasks (workspace_id, status, id, due_date);
CREATE INDEX tasks_by_due_date ON tasks (workspace_id, status, due_date, id)
 WHERE due_date IS NOT NULL;
CREATE INDEX tasks_by_priority ON tasks (workspace_id, priority, id);
CREATE INDEX tasks_by_assignee ON tasks (workspace_id, assignee_id, id);
CREATE INDEX tasks_by_project ON tasks (workspace_id, project_id, id)
 WHERE project_id IS NOT NULL;
CREATE INDEX tasks_by_parent ON tasks (workspace_id, parent_id, id)
 WHERE parent_id IS NOT NULL;

-- Return the last millisecond of a day in the timezone of a workspace.
-- The language is PL/pgSQL because PostgreSQL does not inline it. So a statement reads the
-- workspace only if it is given a day, and not if it is given a timestamp.
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

-- Return the moment of a bound for due dates or meetings, which is a timestamp or a day. A day
-- stands for its beginning in the timezone of the workspace.
CREATE FUNCTION time_bound(bound text, workspace_id uuid) RETURNS timestamptz
LANGUAGE sql STABLE
AS $$
    SELECT CASE length(bound)
               WHEN 10 THEN end_of_day(bound::date - 1, workspace_id) + interval '1 millisecond'
               ELSE bound::timestamptz
           END
$$;

-- Return whether the range between these bounds contains a moment. Either bound may be NULL.
CREATE FUNCTION in_order(lower_bound text, upper_bound text, workspace_id uuid) RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT coalesce(
               time_bound(lower_bound, workspace_id) < time_bound(upper_bound, workspace_id), true
           )
$$;

-- The filters of the list. PostgreSQL inlines these functions, and plans for the values of the
-- filters. A filter of NULL matches every task.
-- With one value, is_any() compares with =, so that an index on the column also provides the order.
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

-- Allow two levels of tasks only, and no task as its own parent. The trigger runs when a task gets
-- a new parent. It locks the parent, so that the parent cannot become a subtask at the same time.
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

-- Reject a new assignment to a deactivated user.
-- The command load may insert an older task of a deactivated assignee: created_at of the task must
-- lie before the deactivation. A task that this transaction creates is rejected, even if the
-- transaction began before the deactivation or in the same millisecond. A user who is not in the
-- workspace passes here, and the foreign key rejects the task.
-- The lock on the user makes this transaction wait for a deactivation that has not committed yet,
-- and makes a later deactivation wait for this transaction. The foreign keys would lock the
-- workspace before the member, so the trigger locks the member itself, directly after the user, as
-- the order of locks demands.
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

-- Announce that a task has lost its assignee because the assignee has left the workspace. A foreign
-- key makes this change, so no statement of the service could announce it. Nothing is announced if
-- the workspace itself is being deleted.
-- A request that removes a member stores its user in service.actor_id, for the event's actorId.
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
                    task_json(OLD)
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

-- Return the bytes of a task's long texts. They limit the length of a page and the events of a
-- DELETE. PostgreSQL inlines the function, and so knows the size without reading the text.
CREATE FUNCTION text_bytes(task tasks) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT octet_length(task.description)
$$;

-- A task, as responses and events show it.
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
