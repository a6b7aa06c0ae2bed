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

-- Return the bytes of a meeting's long texts and addresses, which limit the length of a page.
-- PostgreSQL inlines the function, as it does text_bytes() of a task, because it is STABLE, as
-- pg_column_size() is.
CREATE OR REPLACE FUNCTION text_bytes(meeting meetings) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT coalesce(octet_length(meeting.agenda), 0)
         + coalesce(octet_length(meeting.notes), 0)
         + pg_column_size(meeting.attendees)
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
                   END
               )::meeting_document_2
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
