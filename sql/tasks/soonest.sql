-- One page of the tasks of the active workspace that pass the filters, soonest due date first.
-- PostgreSQL reads at most one page of each status from an index, and sorts only these pages. Tasks
-- without a date come last; in cursors, 9999 is their date.
WITH wanted AS (
    -- Only a task with the status done has a time of completion.
    SELECT status
      FROM unnest(coalesce(%(status)s::text[], '{todo,in_progress,done}')) AS status
     WHERE status = 'done'
        OR %(completed_after)s::text IS NULL AND %(completed_before)s::text IS NULL
), dated AS MATERIALIZED (
    SELECT task.*
      FROM wanted
     CROSS JOIN LATERAL (
           SELECT task.*
             FROM tasks AS task
            WHERE task.workspace_id = %(workspace_id)s::uuid
              AND task.status = wanted.status
              AND (task.due_date, task.id) > (
                      greatest(
                          from_millis(%(after)s::bigint),
                          time_bound(%(due_after)s::text, %(workspace_id)s::uuid),
                          '-infinity'
                      ),
                      coalesce(%(after_id)s::uuid, '00000000-0000-0000-0000-000000000000')
                  )
              AND task.due_date < coalesce(
                      time_bound(%(due_before)s::text, %(workspace_id)s::uuid), 'infinity'
                  )
              AND (%(completed_after)s::text IS NULL AND %(completed_before)s::text IS NULL
                   OR task.completed_at >= coalesce(
                          time_bound(%(completed_after)s::text, %(workspace_id)s::uuid),
                          '-infinity'
                      )
                      AND task.completed_at < coalesce(
                              time_bound(%(completed_before)s::text, %(workspace_id)s::uuid),
                              'infinity'
                          ))
              AND matches(
                      task,
                      %(priority)s::text[],
                      %(assignee)s::text,
                      %(user_id)s::uuid,
                      %(project_id)s::text,
                      %(parent_id)s::text
                  )
            ORDER BY task.due_date, task.id
            LIMIT %(limit)s::integer + 1
           ) AS task
     ORDER BY task.due_date, task.id
     LIMIT %(limit)s::integer + 1
), undated AS MATERIALIZED (
    SELECT task.*
      FROM wanted
     CROSS JOIN LATERAL (
           SELECT task.*
             FROM tasks AS task
            WHERE task.workspace_id = %(workspace_id)s::uuid
              AND task.status = wanted.status
              AND task.due_date IS NULL
              AND task.id > CASE from_millis(%(after)s::bigint)
                      WHEN '9999-01-01T00:00:00Z' THEN %(after_id)s::uuid
                      ELSE '00000000-0000-0000-0000-000000000000'
                  END
              AND (%(completed_after)s::text IS NULL AND %(completed_before)s::text IS NULL
                   OR task.completed_at >= coalesce(
                          time_bound(%(completed_after)s::text, %(workspace_id)s::uuid),
                          '-infinity'
                      )
                      AND task.completed_at < coalesce(
                              time_bound(%(completed_before)s::text, %(workspace_id)s::uuid),
                              'infinity'
                          ))
              AND matches(
                      task,
                      %(priority)s::text[],
                      %(assignee)s::text,
                      %(user_id)s::uuid,
                      %(project_id)s::text,
                      %(parent_id)s::text
                  )
            ORDER BY task.id
            LIMIT %(limit)s::integer + 1
           ) AS task
     WHERE %(due_after)s::text IS NULL
       AND %(due_before)s::text IS NULL
       AND (SELECT count(*) FROM dated) <= %(limit)s::integer
), page AS (
    SELECT * FROM dated
     UNION ALL
    SELECT * FROM undated
     ORDER BY due_date, id
     LIMIT %(limit)s::integer + 1
)
SELECT json_list(
           ARRAY(SELECT task_json(ROW(page.*)::tasks) FROM page ORDER BY due_date, id LIMIT length)
       ) AS data,
       (
           ARRAY(
               SELECT keyed_cursor(to_millis(coalesce(due_date, '9999-01-01T00:00:00Z')), id)
                 FROM page
                ORDER BY due_date, id
           )
       )[length] AS next_cursor,
       in_order(%(due_after)s::text, %(due_before)s::text, %(workspace_id)s::uuid) AS due_in_order,
       in_order(
           %(completed_after)s::text, %(completed_before)s::text, %(workspace_id)s::uuid
       ) AS completed_in_order
  FROM page_length(
           ARRAY(SELECT text_bytes(ROW(page.*)::tasks) FROM page ORDER BY due_date, id),
           %(limit)s::integer
       ) AS length;
