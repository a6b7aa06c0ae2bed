-- planned: for its values
-- One page of the tasks of the active workspace that pass the filters, soonest due date first.
-- PostgreSQL reads at most one page of each status from an index, and sorts only these pages. Tasks
-- without a date come last; in cursors, 9999 is their date.
-- The bounds of due dates are not left to matches(): the cursor and the bound are one condition,
-- because with two PostgreSQL could begin at the bound and read all tasks before the cursor.
WITH wanted AS NOT MATERIALIZED (
    SELECT status, %(filters)s::jsonb AS filters, from_millis(%(after)s) AS after
      FROM unnest(
               coalesce(
                   string_to_array(%(filters)s::jsonb ->> 'status', ','), '{todo,in_progress,done}'
               )
           ) AS status
), dated AS MATERIALIZED (
    SELECT task.*
      FROM wanted
     CROSS JOIN LATERAL (
           SELECT *
             FROM tasks AS task
            WHERE workspace_id = %(workspace_id)s
              AND status = wanted.status
              AND (due_date, id) > (
                      greatest(
                          after, time_bound(filters ->> 'due_after', %(workspace_id)s), '-infinity'
                      ),
                      coalesce(%(after_id)s::uuid, '00000000-0000-0000-0000-000000000000')
                  )
              AND due_date < coalesce(
                      time_bound(filters ->> 'due_before', %(workspace_id)s), 'infinity'
                  )
              AND matches(
                      task,
                      filters - '{status,due_after,due_before}'::text[],
                      %(user_id)s,
                      %(workspace_id)s
                  )
            ORDER BY due_date, id
            LIMIT %(limit)s + 1
           ) AS task
), undated AS MATERIALIZED (
    SELECT task.*
      FROM wanted
     CROSS JOIN LATERAL (
           SELECT *
             FROM tasks AS task
            WHERE workspace_id = %(workspace_id)s
              AND status = wanted.status
              AND due_date IS NULL
              AND id > CASE after
                      WHEN '9999-01-01T00:00:00Z' THEN %(after_id)s::uuid
                      ELSE '00000000-0000-0000-0000-000000000000'
                  END
              AND matches(
                      task,
                      filters - '{status,due_after,due_before}'::text[],
                      %(user_id)s,
                      %(workspace_id)s
                  )
            ORDER BY id
            LIMIT %(limit)s + 1
           ) AS task
     WHERE NOT filters ?| '{due_after,due_before}'
       AND (SELECT count(*) FROM dated) <= %(limit)s
)
SELECT CASE
           WHEN fits_page(sum(text_bytes(task::tasks)) OVER page) THEN task_json(task::tasks)
       END AS body,
       keyed_cursor(
           to_millis(coalesce(lag(due_date) OVER page, '9999-01-01T00:00:00Z')), lag(id) OVER page
       ) AS cursor
  FROM (SELECT * FROM dated UNION ALL SELECT * FROM undated) AS task
WINDOW page AS (ORDER BY due_date, id ROWS UNBOUNDED PRECEDING)
 ORDER BY due_date, id
 LIMIT %(limit)s + 1;
