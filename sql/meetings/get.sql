-- One meeting of any workspace that the caller belongs to.
SELECT meeting_details(meeting) AS body, meeting.version
  FROM meetings AS meeting
  JOIN memberships(%(user_id)s::uuid, %(token_workspace_id)s::uuid) AS member
    ON member.workspace_id = meeting.workspace_id
 WHERE meeting.id = %(id)s::uuid;
