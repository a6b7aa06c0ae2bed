-- One page of the upcoming meetings in one or all of the caller's workspaces, soonest first.
-- PostgreSQL reads at most one page of each workspace from its index, and sorts only these pages.
WITH page AS (
    SELECT meeting.*
      FROM memberships(%(user_id)s, %(token_workspace_id)s) AS member
     CROSS JOIN LATERAL (
           SELECT *
             FROM meetings AS meeting
            WHERE workspace_id = member.workspace_id
              AND matches(meeting, %(filters)s, %(workspace_id)s)
              AND start_time > now()
              AND (start_time, id) > (
                      coalesce(from_millis(%(after)s), '-infinity'),
                      coalesce(%(after_id)s::uuid, '00000000-0000-0000-0000-000000000000')
                  )
            ORDER BY start_time, id
            LIMIT %(limit)s + 1
           ) AS meeting
     WHERE member.workspace_id = coalesce(%(only_workspace_id)s, member.workspace_id)
     ORDER BY start_time, id
     LIMIT %(limit)s + 1
)
SELECT json_list(
           ARRAY(
               SELECT meeting_json(page::meetings)
                 FROM page
                ORDER BY start_time, id
                LIMIT length
           )
       ) AS data,
       (
           ARRAY(SELECT keyed_cursor(to_millis(start_time), id) FROM page ORDER BY start_time, id)
       )[length] AS next_cursor
  FROM page_length(
           ARRAY(SELECT text_bytes(page::meetings) FROM page ORDER BY start_time, id),
           %(limit)s
       ) AS length;
