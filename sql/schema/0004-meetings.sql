-- Meetings, from scheduled to completed.

CREATE TABLE meetings (
    workspace_id uuid NOT NULL
        REFERENCES workspaces (id) ON DELETE CASCADE,
    -- The API finds a meeting by its id alone, in all workspaces of the caller, so the id is
    -- unique.
    id uuid NOT NULL DEFAULT new_id()
        CONSTRAINT "id is taken by another meeting"
        UNIQUE,
    title text NOT NULL
        CONSTRAINT "title must have 1 to 500 characters"
        CHECK (length(title) BETWEEN 1 AND 500),
    start_time timestamp_ms NOT NULL,
    end_time timestamp_ms NOT NULL,
    platform text
        CONSTRAINT "platform must be one of: google_meet, zoom, teams, in_person"
        CHECK (platform IN ('google_meet', 'zoom', 'teams', 'in_person')),
    attendees text[] NOT NULL DEFAULT '{}'
        CONSTRAINT "attendees must be at most 200 addresses of 254 characters"
        CHECK (cardinality(attendees) <= 200 AND longest(attendees) <= 254),
    agenda text
        CONSTRAINT "agenda must have at most 65536 characters"
        CHECK (length(agenda) <= 65536),
    notes text
        CONSTRAINT "notes must have at most 65536 characters"
        CHECK (length(notes) <= 65536),
    status text NOT NULL DEFAULT 'scheduled'
        CONSTRAINT "status must be one of: scheduled, completed"
        CHECK (status IN ('scheduled', 'completed')),
    summary text
        CONSTRAINT "summary must have at most 65536 characters"
        CHECK (length(summary) <= 65536),
    action_items text[] NOT NULL DEFAULT '{}'
        CONSTRAINT "actionItems must be at most 200 texts of 2000 characters"
        CHECK (cardinality(action_items) <= 200 AND longest(action_items) <= 2000),
    decisions text[] NOT NULL DEFAULT '{}'
        CONSTRAINT "decisions must be at most 200 texts of 2000 characters"
        CHECK (cardinality(decisions) <= 200 AND longest(decisions) <= 2000),
    -- There is no foreign key because the author's id stays after the author has left.
    created_by uuid NOT NULL,
    created_at timestamp_ms NOT NULL DEFAULT now_ms(),
    updated_at timestamp_ms NOT NULL DEFAULT now_ms(),
    version integer NOT NULL DEFAULT 1,
    PRIMARY KEY (workspace_id, id),
    CONSTRAINT "endTime must be after startTime"
        CHECK (end_time > start_time),
    CONSTRAINT "summary needs status completed"
        CHECK (status = 'completed' OR summary IS NULL),
    CONSTRAINT "actionItems need status completed"
        CHECK (status = 'completed' OR action_items = '{}'),
    CONSTRAINT "decisions need status completed"
        CHECK (status = 'completed' OR decisions = '{}')
);

-- Store the column uncompressed. The stored sizes of rows limit the length of a page. Compression
-- would make the stored size smaller than the addresses that the page returns.
ALTER TABLE meetings ALTER COLUMN attendees SET STORAGE EXTERNAL;

CREATE INDEX meetings_by_start ON meetings (workspace_id, start_time, id);

CREATE TRIGGER next_version
    BEFORE UPDATE ON meetings
    FOR EACH ROW
    WHEN (NEW.version = OLD.version AND NEW IS DISTINCT FROM OLD)
    EXECUTE FUNCTION next_dated_version();

-- Reject a change that would reopen a completed meeting.
CREATE FUNCTION keep_completed() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE check_violation USING CONSTRAINT = 'status must stay completed';
END
$$;

CREATE TRIGGER keep_completed
    BEFORE UPDATE ON meetings
    FOR EACH ROW
    WHEN (OLD.status = 'completed' AND NEW.status <> 'completed')
    EXECUTE FUNCTION keep_completed();

-- Return the bytes of a meeting's long texts and addresses, which limit the length of a page.
-- PostgreSQL inlines the function, as it does text_bytes() of a task.
CREATE FUNCTION text_bytes(meeting meetings) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT coalesce(octet_length(meeting.agenda), 0)
         + coalesce(octet_length(meeting.notes), 0)
         + pg_column_size(meeting.attendees)
$$;

-- A meeting, as lists show it.
CREATE TYPE meeting_document AS (
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
    "version" integer
);

CREATE FUNCTION meeting_json(meeting meetings) RETURNS json
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
                   meeting.version
               )::meeting_document
           )
$$;

CREATE TYPE outcome_document AS (
    "summary" text,
    "actionItems" text[],
    "decisions" text[]
);

-- A meeting with its outcome. Until the meeting is completed, the outcome is empty.
CREATE FUNCTION meeting_with_outcome(meeting meetings) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT json_join(
               meeting_json(meeting),
               row_to_json(
                   ROW(
                       meeting.summary,
                       meeting.action_items,
                       meeting.decisions
                   )::outcome_document
               )
           )
$$;

-- A single meeting. It shows an outcome only once it is completed.
CREATE FUNCTION meeting_details(meeting meetings) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT CASE meeting.status
               WHEN 'completed' THEN meeting_with_outcome(meeting)
               ELSE meeting_json(meeting)
           END
$$;
