-- One page of the meetings in one or all of the caller's workspaces, latest start first.
-- PostgreSQL reads at most one page of each workspace from its index, and sorts only these pages.
-- Two workspaces can have a meeting with the same id and start. Between two such meetings, a cursor
-- names the workspace too.
WITH page AS (
    SELECT meeting.*
      FROM memberships(%(user_id)s, %(token_workspace_id)s) AS member
     CROSS JOIN LATERAL (
           SELECT *
             FROM meetings AS meeting
            WHERE workspace_id = member.workspace_id
              AND matches(meeting, %(filters)s, %(workspace_id)s)
              AND (start_time, id, workspace_id) < (
                      coalesce(from_millis(%(after)s), 'infinity'),
                      coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'),
                      coalesce(
                          %(after_workspace_id)s::uuid, '00000000-0000-0000-0000-000000000000'
                      )
                  )
            ORDER BY start_time DESC, id DESC
            LIMIT %(limit)s + 1
           ) AS meeting
     WHERE member.workspace_id = coalesce(%(only_workspace_id)s, member.workspace_id)
     ORDER BY start_time DESC, id DESC, workspace_id DESC
     LIMIT %(limit)s + 1
)
SELECT json_list(
           ARRAY(
               SELECT meeting_json(page::meetings)
                 FROM page
                ORDER BY start_time DESC, id DESC, workspace_id DESC
                LIMIT length
           )
       ) AS data,
       (
           ARRAY(
               SELECT keyed_cursor(to_millis(start_time), id)
                      || CASE
                             WHEN (lead(start_time) OVER following, lead(id) OVER following)
                                  = (start_time, id)
                             THEN '.' || id_cursor(workspace_id)
                             ELSE ''
                         END
                 FROM page
               WINDOW following AS (ORDER BY start_time DESC, id DESC, workspace_id DESC)
                ORDER BY start_time DESC, id DESC, workspace_id DESC
           )
       )[length] AS next_cursor
  FROM page_length(
           ARRAY(
               SELECT text_bytes(page::meetings)
                 FROM page
                ORDER BY start_time DESC, id DESC, workspace_id DESC
           ),
           %(limit)s
       ) AS length;
