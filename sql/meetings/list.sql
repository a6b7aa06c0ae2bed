-- One page of the meetings in one or all of the caller's workspaces, latest start first.
-- PostgreSQL reads at most one page of each workspace from its index, and sorts only these pages.
WITH page AS (
    SELECT meeting.*
      FROM memberships(%(user_id)s, %(token_workspace_id)s) AS member
     CROSS JOIN LATERAL (
           SELECT *
             FROM meetings AS meeting
            WHERE workspace_id = member.workspace_id
              AND matches(meeting, %(filters)s, %(workspace_id)s)
              AND (start_time, id) < (
                      coalesce(from_millis(%(after)s), 'infinity'),
                      coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
                  )
            ORDER BY start_time DESC, id DESC
            LIMIT %(limit)s + 1
           ) AS meeting
     WHERE member.workspace_id = coalesce(%(only_workspace_id)s, member.workspace_id)
     ORDER BY start_time DESC, id DESC
     LIMIT %(limit)s + 1
)
SELECT json_list(
           ARRAY(
               SELECT meeting_json(page::meetings)
                 FROM page
                ORDER BY start_time DESC, id DESC
                LIMIT length
           )
       ) AS data,
       (
           ARRAY(
               SELECT keyed_cursor(to_millis(start_time), id)
                 FROM page
                ORDER BY start_time DESC, id DESC
           )
       )[length] AS next_cursor
  FROM page_length(
           ARRAY(
               SELECT text_bytes(page::meetings)
                 FROM page
                ORDER BY start_time DESC, id DESC
           ),
           %(limit)s
       ) AS length;
