-- The meetings of a workspace, with their outcomes, oldest first.
SELECT meeting_details(meeting) AS body
  FROM meetings AS meeting
 WHERE workspace_id = %(id)s
 ORDER BY id;
