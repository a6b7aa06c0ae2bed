-- Meetings.

-- Reject a change that would reopen a completed meeting.
CREATE OR REPLACE FUNCTION keep_completed() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE check_violation USING CONSTRAINT = 'status must stay completed';
END
$$;

-- Return the meeting with this id in any workspace that the caller belongs to, or no row. If
-- several of these workspaces have a meeting with the id, return the meeting of the active
-- workspace, or else of the oldest workspace. PostgreSQL inlines the function.
CREATE OR REPLACE FUNCTION meeting_of_caller(
    id uuid, user_id uuid, only_workspace_id uuid, active_workspace_id uuid
) RETURNS SETOF meetings
LANGUAGE sql STABLE
AS $$
    SELECT meeting.*
      FROM meetings AS meeting
      JOIN memberships(meeting_of_caller.user_id, only_workspace_id) AS member
        ON member.workspace_id = meeting.workspace_id
     WHERE meeting.id = meeting_of_caller.id
     ORDER BY coalesce(meeting.workspace_id <> active_workspace_id, true), meeting.workspace_id
     LIMIT 1
$$;

-- Return whether a meeting matches the filters of a list. An absent filter matches every meeting.
-- The function contains every filter of meetings, one condition each, as matches() of a task does.
CREATE OR REPLACE FUNCTION matches(meeting meetings, filters jsonb, workspace_id uuid)
RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT meeting.start_time >= coalesce(
               time_bound(filters ->> 'starts_from', workspace_id), '-infinity'
           )
       AND meeting.start_time < coalesce(
               time_bound(filters ->> 'starts_before', workspace_id), 'infinity'
           )
$$;

-- Return the bytes of a meeting's long texts, addresses and metadata, for fits_page().
CREATE OR REPLACE FUNCTION text_bytes(meeting meetings) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT coalesce(octet_length(meeting.agenda), 0)
         + coalesce(octet_length(meeting.notes), 0)
         + pg_column_size(meeting.attendees)
         + coalesce(pg_column_size(meeting.metadata), 0)
$$;

-- A meeting, as lists show it.
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
                   END,
                   metadata_json(meeting.metadata)
               )::meeting_document_3
           )
$$;

-- A meeting with its outcome. Until the meeting is completed, the outcome is empty.
CREATE OR REPLACE FUNCTION meeting_with_outcome(meeting meetings) RETURNS json
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
CREATE OR REPLACE FUNCTION meeting_details(meeting meetings) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT CASE meeting.status
               WHEN 'completed' THEN meeting_with_outcome(meeting)
               ELSE meeting_json(meeting)
           END
$$;

-- Return the workspace of the meeting with this id that a caller may change or delete, or NULL. If
-- the request names a workspace (in_workspace_id), it is this one only. Otherwise the active
-- workspace comes first, even if the meeting was deleted there, so that a repeated DELETE takes no
-- other meeting. If it never had one and several others do, the function fails.
CREATE OR REPLACE FUNCTION workspace_of_meeting(
    id uuid, user_id uuid, in_workspace_id uuid, active_workspace_id uuid
) RETURNS uuid
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    found uuid[] := ARRAY(
        SELECT meeting.workspace_id
          FROM meetings AS meeting
          JOIN memberships(workspace_of_meeting.user_id, in_workspace_id) AS member
            ON member.workspace_id = meeting.workspace_id
         WHERE meeting.id = workspace_of_meeting.id
    );
BEGIN
    IF active_workspace_id = ANY (found) OR EXISTS (
        SELECT
          FROM deleted_versions
         WHERE workspace_id = active_workspace_id
           AND deleted_versions.id = workspace_of_meeting.id
    ) THEN
        RETURN active_workspace_id;
    END IF;
    IF cardinality(found) > 1 THEN
        RAISE cardinality_violation;
    END IF;
    RETURN found[1];
END
$$;

-- Change the fields of a meeting that the changes name, and announce the change. If no value
-- changes, or the meeting has none of these versions, write nothing.
-- Return the meeting, or NULLs if there is none.
CREATE OR REPLACE FUNCTION change_meeting(
    workspace_id uuid,
    id uuid,
    changes jsonb,
    versions int4multirange,
    user_id uuid,
    token_id uuid,
    OUT body json,
    OUT version integer,
    OUT matched boolean,
    OUT event_id uuid
)
LANGUAGE plpgsql
AS $$
DECLARE
    before meetings;
    after meetings;
BEGIN
    PERFORM share_workspace(workspace_id, token_id);
    SELECT *
      INTO before
      FROM meetings
     WHERE meetings.workspace_id = change_meeting.workspace_id
       AND meetings.id = change_meeting.id
       FOR NO KEY UPDATE;
    matched := before.version <@ versions;
    after := before;
    -- A precondition that fails comes before metadata that is too long.
    IF matched THEN
        after := jsonb_populate_record(before, with_metadata(changes, before.metadata));
    END IF;
    IF after IS DISTINCT FROM before THEN
        UPDATE meetings
           SET title = after.title,
               start_time = after.start_time,
               end_time = after.end_time,
               platform = after.platform,
               attendees = after.attendees,
               agenda = after.agenda,
               notes = after.notes,
               status = after.status,
               summary = after.summary,
               action_items = after.action_items,
               decisions = after.decisions,
               metadata = after.metadata,
               updated_at = now_ms(),
               version = before.version + 1,
               updated_by = user_id,
               updated_by_version = before.version + 1
         WHERE meetings.workspace_id = change_meeting.workspace_id
           AND meetings.id = change_meeting.id
     RETURNING *
          INTO after;
        IF EXISTS (SELECT FROM feeds WHERE feeds.workspace_id = change_meeting.workspace_id) THEN
            body := meeting_details(after);
            event_id := announce(
                workspace_id,
                CASE
                    WHEN after.status <> before.status THEN 'meeting.completed'
                    ELSE 'meeting.updated'
                END,
                body,
                user_id,
                meeting_with_outcome(before)
            );
        END IF;
    END IF;
    body := coalesce(body, meeting_details(after));
    version := after.version;
END
$$;

-- Delete a meeting, unless it has none of these versions, and announce its last state.
-- Return its version, or NULLs if there is none; if the version does not match, return the meeting.
CREATE OR REPLACE FUNCTION delete_meeting(
    workspace_id uuid,
    id uuid,
    versions int4multirange,
    user_id uuid,
    token_id uuid,
    OUT version integer,
    OUT matched boolean,
    OUT body json,
    OUT event_id uuid
)
LANGUAGE plpgsql
AS $$
DECLARE
    meeting meetings;
BEGIN
    PERFORM lock_workspace(workspace_id, token_id);
    SELECT *
      INTO meeting
      FROM meetings
     WHERE meetings.workspace_id = delete_meeting.workspace_id
       AND meetings.id = delete_meeting.id
       FOR UPDATE;
    version := meeting.version;
    matched := meeting.version <@ versions;
    IF matched IS NOT true THEN
        body := meeting_details(meeting);
        RETURN;
    END IF;
    DELETE FROM meetings
     WHERE meetings.workspace_id = delete_meeting.workspace_id
       AND meetings.id = delete_meeting.id;
    event_id := announce(workspace_id, 'meeting.deleted', meeting_details(meeting), user_id);
END
$$;

-- Insert meetings, scheduled or completed, in the order of their lines. Only load/meeting
-- calls this.
CREATE OR REPLACE FUNCTION load_meetings(rows json) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO meetings (
               workspace_id, id, title, start_time, end_time, platform, attendees, agenda, notes,
               status, summary, action_items, decisions, created_by, created_at, updated_at,
               version, updated_by, updated_by_version, metadata
           )
    SELECT workspace_id,
           coalesce(id, new_id(coalesce(created_at, clock_timestamp()))),
           title,
           start_time,
           end_time,
           platform,
           attendees,
           agenda,
           notes,
           status,
           summary,
           coalesce(action_items, '{}'),
           coalesce(decisions, '{}'),
           created_by,
           coalesce(created_at, now_ms()),
           coalesce(updated_at, created_at, now_ms()),
           version,
           last_editor(updated_by, created_by, version, created_at, updated_at),
           version,
           nullif(metadata, '{}')
      FROM json_populate_recordset(NULL::meetings, rows) WITH ORDINALITY AS item
     ORDER BY ordinality;
    UPDATE meetings AS meeting
       SET version = after.version,
           updated_by_version = after.version
      FROM versions_after_deletion(rows) AS after
     WHERE meeting.workspace_id = after.workspace_id
       AND meeting.id = after.id;
END
$$;
