-- One meeting of any workspace that the caller belongs to.
SELECT meeting_details(meeting) AS body, meeting.version
  FROM meeting_of_caller(
           %(id)s::uuid,
           %(user_id)s::uuid,
           %(token_workspace_id)s::uuid,
           %(workspace_id)s::uuid
       ) AS meeting;
