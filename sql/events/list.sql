-- One page of the events of the active workspace, in the order of their positions; no row if the
-- cursor is not one of this history, or if events behind it may be missing.
-- Without a cursor the page is empty, and the next one begins at the newest event.
WITH feed AS MATERIALIZED (
    SELECT feed.workspace_id,
           cursor_history(feed) AS history,
           feed.complete_after,
           %(after)s::bigint AS after
      FROM feeds AS feed
      JOIN members AS member ON member.workspace_id = feed.workspace_id
     WHERE feed.workspace_id = %(workspace_id)s::uuid
       AND member.user_id = %(user_id)s::uuid
), page AS MATERIALIZED (
    SELECT event.body, event.position
      FROM feed
     CROSS JOIN LATERAL (
           SELECT event.body, event.position
             FROM events AS event
            WHERE event.workspace_id = feed.workspace_id
              AND event.position > feed.after
              AND event.position <= %(settled)s::bigint
              AND (%(type)s::text IS NULL OR event.type = %(type)s::text)
            ORDER BY event.position
            LIMIT %(limit)s::integer + 1
           ) AS event
), page_end AS (
    SELECT last_row(
               array_agg(octet_length(body) ORDER BY position),
               sum(octet_length(body)),
               %(limit)s::integer
           ) AS number
      FROM page
), shown AS (
    SELECT body, position FROM page ORDER BY position LIMIT (SELECT number FROM page_end)
)
SELECT (
           '['
           || coalesce((SELECT string_agg(body, ', ' ORDER BY position) FROM shown), '')
           || ']'
       )::json AS data,
       keyed_cursor(
           CASE
               WHEN (SELECT number FROM page_end) IS NOT NULL THEN (SELECT max(position) FROM shown)
               ELSE greatest(
                   feed.after,
                   feed.complete_after,
                   (
                       SELECT max(event.position)
                         FROM events AS event
                        WHERE event.workspace_id = feed.workspace_id
                          AND event.position <= %(settled)s::bigint
                   )
               )
           END,
           feed.history
       ) AS next_cursor
  FROM feed
 WHERE feed.after IS NULL
    OR feed.after >= feed.complete_after AND feed.history = %(after_id)s::uuid;
