-- One page of the upcoming meetings of all the caller's workspaces, or of one, soonest first.
-- Each workspace yields at most one page from its index, so only those pages are sorted.
WITH page AS (
    SELECT meeting_json(meeting) AS document,
           keyed_cursor(to_millis((meeting).start_time), (meeting).id) AS cursor
      FROM members AS member
     CROSS JOIN LATERAL (
           SELECT meeting
             FROM meetings AS meeting
            WHERE meeting.workspace_id = member.workspace_id
              AND meeting.start_time > now()
              AND (meeting.start_time, meeting.id) > (
                      coalesce(from_millis(%(after)s::bigint), '-infinity'),
                      coalesce(%(after_id)s::uuid, '00000000-0000-0000-0000-000000000000')
                  )
            ORDER BY meeting.start_time, meeting.id
            LIMIT %(limit)s::integer + 1
           ) AS in_workspace
     WHERE member.user_id = %(user_id)s::uuid
       AND (%(only_workspace_id)s::uuid IS NULL
            OR member.workspace_id = %(only_workspace_id)s::uuid)
     ORDER BY (meeting).start_time, (meeting).id
     LIMIT %(limit)s::integer + 1
)
SELECT page_json(array_agg(document), array_agg(cursor), %(limit)s::integer) AS body,
       next_cursor(array_agg(cursor), %(limit)s::integer) AS next_cursor
  FROM page;
