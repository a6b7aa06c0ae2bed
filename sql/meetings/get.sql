-- One meeting of any workspace that the caller belongs to.
SELECT meeting_details(meeting) AS body, meeting.version
  FROM meetings AS meeting
  JOIN members AS member ON member.workspace_id = meeting.workspace_id
 WHERE member.user_id = %(user_id)s::uuid
   AND meeting.id = %(id)s::uuid;
