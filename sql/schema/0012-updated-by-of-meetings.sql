-- The last editor of meetings, and of objects that no statement of the service changes.

-- The user who made the last change, and the version that this change has made, as in tasks.
ALTER TABLE meetings
  ADD COLUMN updated_by uuid,
  ADD COLUMN updated_by_version integer;

-- A meeting, as lists show it.
CREATE TYPE meeting_document_2 AS (
    "id" uuid,
    "workspaceId" uuid,
    "title" text,
    "startTime" text,
    "endTime" text,
    "platform" text,
    "attendees" text[],
    "agenda" text,
    "notes" text,
    "status" text,
    "createdBy" uuid,
    "createdAt" text,
    "updatedAt" text,
    "version" integer,
    "updatedBy" uuid
);

CREATE OR REPLACE FUNCTION meeting_json(meeting meetings) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT row_to_json(
               ROW(
                   meeting.id,
                   meeting.workspace_id,
                   meeting.title,
                   iso(meeting.start_time),
                   iso(meeting.end_time),
                   meeting.platform,
                   meeting.attendees,
                   meeting.agenda,
                   meeting.notes,
                   meeting.status,
                   meeting.created_by,
                   iso(meeting.created_at),
                   iso(meeting.updated_at),
                   meeting.version,
                   CASE
                       WHEN meeting.updated_by_version = meeting.version THEN meeting.updated_by
                   END
               )::meeting_document_2
           )
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
