-- Those of these ids that a meeting has, of whatever workspace.
SELECT meeting.id::text
  FROM meetings AS meeting
 WHERE meeting.id = ANY (%(ids)s::uuid[]);
