-- One page of the upcoming meetings in one or all of the caller's workspaces, soonest first.
-- The comment of meetings/list says what PostgreSQL reads, and which workspace a cursor names.
SELECT CASE
           WHEN fits_page(sum(text_bytes(meeting::meetings)) OVER page)
           THEN meeting_json(meeting::meetings)
       END AS body,
       keyed_cursor(to_millis(lag(start_time) OVER page), lag(id) OVER page)
       || CASE
              WHEN lag((start_time, id)) OVER page = (start_time, id)
              THEN '.' || id_cursor(lag(meeting.workspace_id) OVER page)
              ELSE ''
          END AS cursor
  FROM memberships(%(user_id)s, %(token_workspace_id)s) AS member
 CROSS JOIN LATERAL (
       SELECT *
         FROM meetings AS meeting
        WHERE workspace_id = member.workspace_id
          AND matches(meeting, %(filters)s, %(workspace_id)s)
          AND start_time > now()
          AND (start_time, id, workspace_id) > (
                  coalesce(from_millis(%(after)s), '-infinity'),
                  coalesce(%(after_id)s::uuid, '00000000-0000-0000-0000-000000000000'),
                  coalesce(%(after_workspace_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
              )
        ORDER BY start_time, id
        LIMIT %(limit)s + 1
       ) AS meeting
 WHERE member.workspace_id = coalesce(%(only_workspace_id)s, member.workspace_id)
WINDOW page AS (
       ORDER BY start_time, id, meeting.workspace_id ROWS UNBOUNDED PRECEDING
       )
 ORDER BY start_time, id, meeting.workspace_id
 LIMIT %(limit)s + 1;
