-- The last editor of tasks (updatedBy), and what an update has changed, in events (previous).

-- The user who made the last change, and the version that this change has made. There is no foreign
-- key because the user's id stays after the user has left, as in created_by.
-- An older release changes tasks and their versions, but not these columns. So updated_by is the
-- last editor only if updated_by_version is the version of the task. Otherwise nobody knows the
-- last editor, and updatedBy is null.
ALTER TABLE tasks
  ADD COLUMN updated_by uuid,
  ADD COLUMN updated_by_version integer;

-- A task, as responses and events show it.
CREATE TYPE task_document_2 AS (
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
    "version" integer,
    "updatedBy" uuid
);

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
                   END
               )::task_document_2
           )
$$;

CREATE TYPE event_document_2 AS (
    "id" text,
    "type" text,
    "timestamp" text,
    "workspaceId" uuid,
    "actorId" uuid,
    "changed" json,
    "data" json,
    "previous" json
);

-- Return the body of an event, which webhooks and the feed send as it is.
CREATE FUNCTION event_text(
    id uuid,
    type text,
    workspace_id uuid,
    actor_id uuid,
    changed json,
    data json,
    previous json
) RETURNS text
LANGUAGE sql STABLE
AS $$
    SELECT row_to_json(
               ROW(
                   'evt_' || replace(id::text, '-', ''),
                   type,
                   iso(now()),
                   workspace_id,
                   actor_id,
                   changed,
                   data,
                   previous
               )::event_document_2
           )::text
$$;

-- Return the body of an event that is no update, such as a ping.
CREATE OR REPLACE FUNCTION event_body(
    id uuid,
    type text,
    workspace_id uuid,
    actor_id uuid,
    changed json,
    data json
) RETURNS text
LANGUAGE sql STABLE
AS $$
    SELECT event_text(id, type, workspace_id, actor_id, changed, data, '{}')
$$;

-- Return the names of the members that an update has changed, in the order of the object. Every
-- update sets updatedAt, version and updatedBy, so these are not listed.
CREATE OR REPLACE FUNCTION changed_members(before json, after json) RETURNS json
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT json_list(array_agg(to_json(name) ORDER BY number))
      FROM json_each_text(after) WITH ORDINALITY AS new (name, value, number)
      JOIN json_each_text(before) AS old (name, value) USING (name)
     WHERE new.value IS DISTINCT FROM old.value
       AND name NOT IN ('updatedAt', 'version', 'updatedBy')
$$;

-- Return an object with these members of another object, in the order of their names in the list.
CREATE FUNCTION members_of(object json, names json) RETURNS json
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT (
               '{'
               || coalesce(string_agg(to_json(name) || ':' || value, ',' ORDER BY number), '')
               || '}'
           )::json
      FROM json_array_elements_text(names) WITH ORDINALITY AS listed (name, number)
      JOIN json_each(object) AS member (name, value) USING (name)
$$;

-- Write an event and its deliveries, as before, with the old values of what an update has changed.
CREATE OR REPLACE FUNCTION announce(
    workspace_id uuid,
    type text,
    data json,
    -- The user who made the request; NULL for a command.
    actor_id uuid DEFAULT NULL,
    -- For an update, the object before it. The event names the members that have changed, and has
    -- their old values.
    before json DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql
AS $$
DECLARE
    new_event_id uuid;
    changed json := '[]';
    previous json := '{}';
    -- NULL if the workspace has never had a webhook or a reader: it has no row.
    is_pulled boolean := (
        SELECT feed.read_at IS NOT NULL
          FROM feeds AS feed
         WHERE feed.workspace_id = announce.workspace_id
    );
BEGIN
    IF is_pulled IS NULL THEN
        RETURN NULL;
    END IF;
    IF is_pulled THEN
        PERFORM hold_position(workspace_id);
    ELSIF NOT EXISTS (
        SELECT FROM webhooks AS webhook
         WHERE webhook.workspace_id = announce.workspace_id
           AND webhook.disabled_at IS NULL
           AND (webhook.events = '{}' OR announce.type = ANY (webhook.events))
    ) THEN
        RETURN NULL;
    END IF;
    IF before IS NOT NULL THEN
        changed := changed_members(before, data);
        previous := members_of(before, changed);
    END IF;
    new_event_id := new_id();
    INSERT INTO events (workspace_id, id, type, body)
    VALUES (
               announce.workspace_id,
               new_event_id,
               announce.type,
               event_text(
                   new_event_id,
                   announce.type,
                   announce.workspace_id,
                   actor_id,
                   changed,
                   announce.data,
                   previous
               )
           );
    INSERT INTO deliveries (workspace_id, webhook_id, event_id, due_at)
    SELECT webhook.workspace_id, webhook.id, new_event_id, now()
      FROM webhooks AS webhook
     WHERE webhook.workspace_id = announce.workspace_id
       AND webhook.disabled_at IS NULL
       AND (webhook.events = '{}' OR announce.type = ANY (webhook.events))
       -- If another transaction is deleting the webhook, this waits, and then skips the webhook.
       FOR KEY SHARE;
    IF FOUND THEN
        RETURN new_event_id;
    END IF;
    IF NOT is_pulled THEN
        DELETE FROM events AS event
         WHERE event.workspace_id = announce.workspace_id
           AND event.id = new_event_id;
    END IF;
    RETURN NULL;
END
$$;
