-- One meeting of any workspace that the caller belongs to. If several of these workspaces have a
-- meeting with the id, return the meeting of the active workspace, or else of the oldest workspace.
SELECT meeting_details(meeting) AS body, meeting.version
  FROM meetings AS meeting
  JOIN memberships(%(user_id)s::uuid, %(token_workspace_id)s::uuid) AS member
    ON member.workspace_id = meeting.workspace_id
 WHERE meeting.id = %(id)s::uuid
 ORDER BY coalesce(meeting.workspace_id <> %(workspace_id)s::uuid, true), meeting.workspace_id
 LIMIT 1;
