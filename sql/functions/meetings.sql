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
-- The function contains every filter of meetings, one condition each. PostgreSQL inlines it, so a
-- filter can use an index.
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

-- Return the bytes of a meeting's long texts, addresses and metadata, which limit the length of a
-- page. PostgreSQL inlines the function, as it does text_bytes() of a task.
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

-- Store the fields of a meeting that requests may change, and return the meeting with its new
-- version. Only meetings/update calls this. The list of fields stands here, so that whoever adds a
-- field finds it beside the JSON.
CREATE OR REPLACE FUNCTION update_meeting(after meetings, user_id uuid) RETURNS meetings
LANGUAGE plpgsql
AS $$
BEGIN
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
           version = version + 1,
           updated_by = user_id,
           updated_by_version = version + 1
     WHERE workspace_id = after.workspace_id
       AND id = after.id
 RETURNING *
      INTO after;
    RETURN after;
END
$$;

-- Insert meetings, scheduled or completed, in the order of their lines. Only load/meeting
-- calls this.
CREATE OR REPLACE FUNCTION load_meetings(rows json) RETURNS void
LANGUAGE sql
AS $$
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
           first,
           last_editor(updated_by, created_by, version, created_at, updated_at),
           first,
           nullif(metadata, '{}')
      FROM json_populate_recordset(NULL::meetings, rows) WITH ORDINALITY AS item
     CROSS JOIN LATERAL first_version('meeting', workspace_id, id, version) AS first
     ORDER BY ordinality
$$;
