-- One meeting of any workspace that the caller belongs to.
SELECT meeting_details(meeting) AS body, meeting.version
  FROM meeting_of_caller(%(id)s, %(user_id)s, %(token_workspace_id)s, %(workspace_id)s) AS meeting;
