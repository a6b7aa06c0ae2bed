-- Create a meeting in the active workspace and announce it.
WITH created AS (
    INSERT INTO meetings (
               workspace_id, id, title, start_time, end_time, platform,
               attendees, agenda, notes, created_by,
               version, updated_by, updated_by_version, metadata
           )
    SELECT %(workspace_id)s,
           coalesce(%(id)s, new_id()),
           %(title)s,
           %(start_time)s::timestamptz,
           %(end_time)s::timestamptz,
           %(platform)s,
           %(attendees)s,
           %(agenda)s,
           %(notes)s,
           %(user_id)s,
           first,
           %(user_id)s,
           first,
           %(metadata)s::jsonb
      FROM first_version(
               'meeting', share_workspace(%(workspace_id)s, %(token_id)s), %(id)s
           ) AS first
 RETURNING workspace_id, id, version, meeting_json(meetings) AS body
)
SELECT body,
       version,
       id,
       announce(workspace_id, 'meeting.created', body, %(user_id)s) AS event_id
  FROM created;
