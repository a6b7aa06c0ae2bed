-- One page of the events of the active workspace, in the order of their positions.
-- There is no row if the cursor is not valid, or if events after it may be missing: the response is
-- then 410. sql/schema/0008-events.sql explains positions and cursors.
-- Without a cursor the page is empty, and its nextCursor stands for the newest event. This first
-- cursor is valid only until the server stops, because its reader then lists the workspace, and
-- sees changes that are newer than the row of the cursor. While no events come, the cursors of
-- later pages are limited in the same way.
WITH feed AS MATERIALIZED (
    SELECT feed.workspace_id,
           feed.history,
           feed.complete_after,
           %(after)s AS after,
           num_nonnulls(%(type)s::text[], %(about)s::text, %(actor_id)s::text) > 0 AS is_filtered,
           CASE %(actor_id)s
               WHEN 'me' THEN %(user_id)s::uuid::text
               ELSE %(actor_id)s
           END AS actor_id,
           CASE
               WHEN %(after)s IS NULL THEN pg_postmaster_start_time()
               ELSE proof.server_started
           END AS server_started
      FROM feeds AS feed
      JOIN members AS member ON member.workspace_id = feed.workspace_id
      LEFT JOIN event_cursors AS proof
             ON proof.workspace_id = feed.workspace_id
            AND proof.position = %(after)s
            AND cursor_proof(feed.history, proof.id, proof.xmin) = %(after_id)s
            AND coalesce(proof.server_started = pg_postmaster_start_time(), true)
     WHERE feed.workspace_id = %(workspace_id)s
       AND member.user_id = %(user_id)s
       AND feed.read_at IS NOT NULL
       AND (
               %(after)s IS NULL
               OR %(after)s >= feed.complete_after
               AND proof.id IS NOT NULL
           )
), searched AS MATERIALIZED (
    -- An event has not been compared if "found" is NULL: at most the next 10 000 events are, and
    -- 20 MB of them, because finding an id means reading the text of each event.
    SELECT body,
           position,
           CASE WHEN sum(octet_length(body)) OVER next <= 20000000 OR NOT feed.is_filtered
                THEN is_any(type, %(type)s::text[])
                     AND has_value(body, '{data,id}', %(about)s)
                     AND has_value(body, '{actorId}', feed.actor_id)
           END AS found
      FROM feed
     CROSS JOIN LATERAL (
           SELECT body, position, type
             FROM events
            WHERE workspace_id = feed.workspace_id
              AND position > feed.after
              AND position <= %(settled)s
            ORDER BY position
            LIMIT CASE WHEN feed.is_filtered THEN 10000 ELSE %(limit)s + 1 END
           ) AS event
    WINDOW next AS (ORDER BY position ROWS UNBOUNDED PRECEDING)
), page AS MATERIALIZED (
    SELECT body,
           position,
           row_number() OVER page <= %(limit)s
           AND fits_page(sum(octet_length(body)) OVER page) AS is_shown
      FROM searched
     WHERE found
    WINDOW page AS (ORDER BY position ROWS UNBOUNDED PRECEDING)
     ORDER BY position
     LIMIT %(limit)s + 1
), page_end AS MATERIALIZED (
    -- The position at which the page ends although other events may follow; NULL if none do.
    SELECT CASE
               WHEN (SELECT NOT every(is_shown) FROM page)
               THEN (SELECT max(position) FROM page WHERE is_shown)
               WHEN feed.is_filtered
                    AND (SELECT count(*) = 10000 OR count(*) > count(found) FROM searched)
               THEN (SELECT max(position) FROM searched WHERE found IS NOT NULL)
           END AS position
      FROM feed
), moved AS MATERIALIZED (
    SELECT workspace_id,
           history,
           after,
           server_started,
           coalesce(
               page_end.position,
               greatest(
                   after,
                   complete_after,
                   (
                       SELECT max(position)
                         FROM events
                        WHERE workspace_id = feed.workspace_id
                          AND position <= %(settled)s
                   )
               )
           ) AS position
      FROM feed
     CROSS JOIN page_end
), next AS MATERIALIZED (
    SELECT workspace_id,
           history,
           position,
           CASE WHEN after IS NULL OR position = after THEN server_started END AS server_started
      FROM moved
), known AS MATERIALIZED (
    SELECT cursor.id, cursor.xmin AS written_by
      FROM next
      JOIN event_cursors AS cursor
        ON cursor.workspace_id = next.workspace_id
       AND cursor.position = next.position
       AND cursor.server_started IS NOT DISTINCT FROM next.server_started
     LIMIT 1
), added AS (
    INSERT INTO event_cursors AS cursor (workspace_id, position, server_started)
    SELECT workspace_id, position, server_started
      FROM next
     WHERE NOT EXISTS (SELECT FROM known)
 RETURNING cursor.id,
           cursor.xmin AS written_by,
           -- The reader waits for no disk and no standby: a cursor that is lost is no longer valid,
           -- and the reader gets 410.
           set_config('synchronous_commit', 'off', true)
)
SELECT (
           '{"data":['
           || coalesce(
                  (SELECT string_agg(body, ',' ORDER BY position) FROM page WHERE is_shown), ''
              )
           || '],"nextCursor":"'
           || keyed_cursor(
                  next.position, cursor_proof(next.history, cursor.id, cursor.written_by)
              )
           || '","hasMore":'
           || (SELECT position IS NOT NULL FROM page_end)
           || '}'
       )::json AS body
  FROM next
 CROSS JOIN (
       SELECT id, written_by FROM known
        UNION ALL
       SELECT id, written_by FROM added
       ) AS cursor;
