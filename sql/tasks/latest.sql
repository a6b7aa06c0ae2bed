-- planned: for its values
-- One page of the tasks of the active workspace that pass the filters, latest completion first.
-- Tasks that are not completed come last, newest first; in cursors, 1899 is their date.
-- The statement relies on one fact: completed_at is set if and only if the status is done. So
-- PostgreSQL reads at most one page of completed tasks and one of each other status, each from an
-- index, and sorts only these pages.
WITH asked AS NOT MATERIALIZED (
    SELECT %(filters)s::jsonb AS filters,
           from_millis(%(after)s) AS after,
           least(
               time_bound(%(filters)s::jsonb ->> 'completed_before', %(workspace_id)s), 'infinity'
           ) AS before
), completed AS MATERIALIZED (
    SELECT task.*
      FROM asked
     CROSS JOIN tasks AS task
     WHERE workspace_id = %(workspace_id)s
       AND is_any('done', string_to_array(filters ->> 'status', ','))
       AND status = 'done'
       AND completed_at >= coalesce(
               time_bound(filters ->> 'completed_after', %(workspace_id)s), '-infinity'
           )
       -- One condition for the bound and the cursor, as in tasks/soonest.
       AND (completed_at, id) < (
               least(after, before),
               CASE
                   WHEN after < before THEN %(after_id)s::uuid
                   ELSE '00000000-0000-0000-0000-000000000000'
               END
           )
       AND matches(
               task,
               filters - '{status,completed_after,completed_before}'::text[],
               %(user_id)s,
               %(workspace_id)s
           )
     ORDER BY completed_at DESC, id DESC
     LIMIT %(limit)s + 1
), open AS MATERIALIZED (
    SELECT task.*
      FROM asked
     CROSS JOIN unnest(
               coalesce(string_to_array(filters ->> 'status', ','), '{todo,in_progress}')
           ) AS wanted
     CROSS JOIN LATERAL (
           SELECT *
             FROM tasks AS task
            WHERE workspace_id = %(workspace_id)s
              AND status = wanted
              AND completed_at IS NULL
              AND id < CASE after
                      WHEN '1899-01-01T00:00:00Z' THEN %(after_id)s::uuid
                      ELSE 'ffffffff-ffff-ffff-ffff-ffffffffffff'
                  END
              AND matches(
                      task,
                      filters - '{status,completed_after,completed_before}'::text[],
                      %(user_id)s,
                      %(workspace_id)s
                  )
            ORDER BY id DESC
            LIMIT %(limit)s + 1
           ) AS task
     WHERE wanted <> 'done'
       AND NOT filters ?| '{completed_after,completed_before,completed_by}'
       AND (SELECT count(*) FROM completed) <= %(limit)s
)
SELECT CASE
           WHEN fits_page(sum(text_bytes(task::tasks)) OVER page) THEN task_json(task::tasks)
       END AS body,
       keyed_cursor(
           to_millis(coalesce(lag(completed_at) OVER page, '1899-01-01T00:00:00Z')),
           lag(id) OVER page
       ) AS cursor
  FROM (SELECT * FROM completed UNION ALL SELECT * FROM open) AS task
WINDOW page AS (ORDER BY completed_at DESC NULLS LAST, id DESC ROWS UNBOUNDED PRECEDING)
 ORDER BY completed_at DESC NULLS LAST, id DESC
 LIMIT %(limit)s + 1;
