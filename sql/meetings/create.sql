-- Create a meeting in the active workspace and announce it.
WITH created AS (
    INSERT INTO meetings AS meeting (
               workspace_id, id, title, start_time, end_time, platform,
               attendees, agenda, notes, created_by,
               version, updated_by, updated_by_version, metadata
           )
    SELECT %(workspace_id)s::uuid,
           coalesce(%(id)s::uuid, new_id()),
           %(title)s::text,
           %(start_time)s::timestamptz,
           %(end_time)s::timestamptz,
           %(platform)s::text,
           %(attendees)s::text[],
           %(agenda)s::text,
           %(notes)s::text,
           %(user_id)s::uuid,
           version,
           %(user_id)s::uuid,
           version,
           %(metadata)s::jsonb
      FROM first_version('meeting', %(workspace_id)s::uuid, %(id)s::uuid) AS version
 RETURNING meeting.workspace_id, meeting.id, meeting.version, meeting_json(meeting) AS body
)
SELECT body,
       version,
       id,
       announce(workspace_id, 'meeting.created', body, %(user_id)s::uuid) AS event_id
  FROM created;
