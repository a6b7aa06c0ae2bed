-- One page of the meetings in one or all of the caller's workspaces, latest start first.
-- PostgreSQL reads at most one page of each workspace from its index, and sorts only these pages.
WITH page AS MATERIALIZED (
    SELECT meeting.*
      FROM memberships(%(user_id)s::uuid, %(token_workspace_id)s::uuid) AS member
     CROSS JOIN LATERAL (
           SELECT meeting.*
             FROM meetings AS meeting
            WHERE meeting.workspace_id = member.workspace_id
              AND meeting.start_time >= coalesce(
                      time_bound(%(starts_from)s::text, %(workspace_id)s::uuid), '-infinity'
                  )
              AND meeting.start_time < coalesce(
                      time_bound(%(starts_before)s::text, %(workspace_id)s::uuid), 'infinity'
                  )
              AND (meeting.start_time, meeting.id) < (
                      coalesce(from_millis(%(after)s::bigint), 'infinity'),
                      coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
                  )
            ORDER BY meeting.start_time DESC, meeting.id DESC
            LIMIT %(limit)s::integer + 1
           ) AS meeting
     WHERE %(only_workspace_id)s::uuid IS NULL
        OR member.workspace_id = %(only_workspace_id)s::uuid
     ORDER BY meeting.start_time DESC, meeting.id DESC
     LIMIT %(limit)s::integer + 1
), page_end AS (
    SELECT last_row(
               array_agg(bytes ORDER BY start_time DESC, id DESC), sum(bytes), %(limit)s::integer
           ) AS number
      FROM (SELECT start_time, id, text_bytes(ROW(page.*)::meetings) AS bytes FROM page) AS sizes
)
SELECT json_list(
           array_agg(
               meeting_json(ROW(meeting.*)::meetings)
               ORDER BY meeting.start_time DESC, meeting.id DESC
           )
       ) AS data,
       (
           array_agg(
               keyed_cursor(to_millis(meeting.start_time), meeting.id)
               ORDER BY meeting.start_time DESC, meeting.id DESC
           )
       )[(SELECT number FROM page_end)] AS next_cursor,
       in_order(%(starts_from)s::text, %(starts_before)s::text, %(workspace_id)s::uuid) AS in_order
  FROM (
       SELECT * FROM page ORDER BY start_time DESC, id DESC LIMIT (SELECT number FROM page_end)
       ) AS meeting;
