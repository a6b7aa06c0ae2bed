-- planned: for its values
-- One page of the meetings in one or all of the caller's workspaces that have all pairs of the
-- filter of metadata: all, latest first, or the upcoming ones, soonest first.
-- PostgreSQL compares at most 10 000 of the meetings that pass the other filters, as many of each
-- workspace, and 20 MB of metadata. "found" is NULL from the first one on that was not compared:
-- there the page ends, and the next one goes on after the last that was compared.
WITH searched AS MATERIALIZED (
    SELECT meeting.workspace_id,
           meeting.id,
           lag(start_time) OVER listed AS previous_start,
           lag(meeting.id) OVER listed AS previous_id,
           lag(meeting.workspace_id) OVER listed AS previous_workspace_id,
           row_number() OVER listed AS number,
           CASE WHEN max(meeting.number - share) OVER listed <= 0
                     AND sum(pg_column_size(metadata)) OVER listed <= 20000000
                THEN metadata @> (%(filters)s::jsonb -> 'metadata')
           END AS found
      FROM (
           SELECT workspace_id, greatest(10000 / count(*) OVER (), 1) AS share
             FROM memberships(%(user_id)s, %(token_workspace_id)s)
            WHERE workspace_id = coalesce(%(only_workspace_id)s, workspace_id)
           ) AS member
     CROSS JOIN LATERAL (
           SELECT workspace_id,
                  id,
                  start_time,
                  coalesce(metadata, '{}') AS metadata,
                  row_number() OVER soonest AS number
             FROM meetings AS meeting
            WHERE workspace_id = member.workspace_id
              AND matches(meeting, %(filters)s, %(workspace_id)s)
              AND (NOT %(upcoming)s OR start_time > now())
              AND (%(after)s::bigint IS NULL
                   OR CASE
                          WHEN %(upcoming)s
                          THEN (start_time, id, workspace_id)
                               > (from_millis(%(after)s), %(after_id)s, %(after_workspace_id)s)
                          ELSE (start_time, id, workspace_id)
                               < (from_millis(%(after)s), %(after_id)s, %(after_workspace_id)s)
                      END)
           WINDOW soonest AS (
                  ORDER BY CASE WHEN %(upcoming)s THEN start_time END,
                           CASE WHEN %(upcoming)s THEN id END,
                           start_time DESC,
                           id DESC
                  )
            ORDER BY CASE WHEN %(upcoming)s THEN start_time END,
                     CASE WHEN %(upcoming)s THEN id END,
                     start_time DESC,
                     id DESC
            LIMIT share + 1
           ) AS meeting
    WINDOW listed AS (
           ORDER BY CASE WHEN %(upcoming)s THEN start_time END,
                    CASE WHEN %(upcoming)s THEN meeting.id END,
                    CASE WHEN %(upcoming)s THEN meeting.workspace_id END,
                    start_time DESC,
                    meeting.id DESC,
                    meeting.workspace_id DESC
            ROWS UNBOUNDED PRECEDING
           )
)
SELECT CASE
           WHEN found AND fits_page(sum(text_bytes(meeting)) OVER page)
           THEN meeting_json(meeting)
       END AS body,
       keyed_cursor(to_millis(previous_start), previous_id)
       || '.' || id_cursor(previous_workspace_id) AS cursor
  FROM (
       SELECT * FROM searched WHERE found IS NOT FALSE ORDER BY number LIMIT %(limit)s + 1
       ) AS listed
  JOIN meetings AS meeting USING (workspace_id, id)
WINDOW page AS (ORDER BY number ROWS UNBOUNDED PRECEDING)
 ORDER BY number;
