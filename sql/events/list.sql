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
), page AS (
    SELECT body,
           position,
           row_number() OVER page <= %(limit)s
           AND fits_page(sum(octet_length(body)) OVER page) AS is_shown
      FROM feed
     CROSS JOIN LATERAL (
           SELECT body, position
             FROM events
            WHERE workspace_id = feed.workspace_id
              AND position > feed.after
              AND position <= %(settled)s
              AND (%(type)s::text IS NULL OR type = %(type)s)
            ORDER BY position
            LIMIT %(limit)s + 1
           ) AS event
    WINDOW page AS (ORDER BY position ROWS UNBOUNDED PRECEDING)
), moved AS MATERIALIZED (
    SELECT workspace_id,
           history,
           after,
           server_started,
           CASE
               WHEN (SELECT NOT every(is_shown) FROM page)
               THEN (SELECT max(position) FROM page WHERE is_shown)
               ELSE greatest(
                   after,
                   complete_after,
                   (
                       SELECT max(position)
                         FROM events
                        WHERE workspace_id = feed.workspace_id
                          AND position <= %(settled)s
                   )
               )
           END AS position
      FROM feed
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
           || (SELECT coalesce(NOT every(is_shown), false) FROM page)
           || '}'
       )::json AS body
  FROM next
 CROSS JOIN (
       SELECT id, written_by FROM known
        UNION ALL
       SELECT id, written_by FROM added
       ) AS cursor;
