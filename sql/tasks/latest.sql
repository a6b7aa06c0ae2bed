-- One page of the tasks of the active workspace that pass the filters, latest completion first.
-- Tasks that are not completed come last, newest first; in cursors, 1899 is their date.
-- The statement relies on one fact: completed_at is set if and only if the status is done. So
-- PostgreSQL reads at most one page of completed tasks and one of each other status, each from an
-- index, and sorts only these pages.
WITH completed AS MATERIALIZED (
    SELECT task.*
      FROM tasks AS task
     WHERE task.workspace_id = %(workspace_id)s::uuid
       AND is_any('done', %(status)s::text[])
       AND task.status = 'done'
       AND task.completed_at IS NOT NULL
       AND task.completed_at >= coalesce(
               time_bound(%(completed_after)s::text, %(workspace_id)s::uuid), '-infinity'
           )
       -- One condition for the bound and the cursor: with two, PostgreSQL could begin at the bound
       -- and read all tasks before the cursor.
       AND (task.completed_at, task.id) < (
               least(
                   from_millis(%(after)s::bigint),
                   time_bound(%(completed_before)s::text, %(workspace_id)s::uuid),
                   'infinity'
               ),
               CASE
                   WHEN from_millis(%(after)s::bigint) < coalesce(
                            time_bound(%(completed_before)s::text, %(workspace_id)s::uuid),
                            'infinity'
                        )
                   THEN %(after_id)s::uuid
                   ELSE '00000000-0000-0000-0000-000000000000'
               END
           )
       AND matches(
               task,
               %(priority)s::text[],
               %(assignee)s::text,
               %(user_id)s::uuid,
               %(project_id)s::text,
               %(parent_id)s::text
           )
       AND (%(due_after)s::text IS NULL AND %(due_before)s::text IS NULL
            OR task.due_date >= coalesce(
                   time_bound(%(due_after)s::text, %(workspace_id)s::uuid), '-infinity'
               )
               AND task.due_date < coalesce(
                       time_bound(%(due_before)s::text, %(workspace_id)s::uuid), 'infinity'
                   ))
     ORDER BY task.completed_at DESC, task.id DESC
     LIMIT %(limit)s::integer + 1
), wanted AS (
    SELECT status
      FROM unnest(coalesce(%(status)s::text[], '{todo,in_progress}')) AS status
     WHERE status <> 'done'
), open AS MATERIALIZED (
    SELECT task.*
      FROM wanted
     CROSS JOIN LATERAL (
           SELECT task.*
             FROM tasks AS task
            WHERE task.workspace_id = %(workspace_id)s::uuid
              AND task.status = wanted.status
              AND task.completed_at IS NULL
              AND task.id < CASE from_millis(%(after)s::bigint)
                      WHEN '1899-01-01T00:00:00Z' THEN %(after_id)s::uuid
                      ELSE 'ffffffff-ffff-ffff-ffff-ffffffffffff'
                  END
              AND matches(
                      task,
                      %(priority)s::text[],
                      %(assignee)s::text,
                      %(user_id)s::uuid,
                      %(project_id)s::text,
                      %(parent_id)s::text
                  )
              AND (%(due_after)s::text IS NULL AND %(due_before)s::text IS NULL
                   OR task.due_date >= coalesce(
                          time_bound(%(due_after)s::text, %(workspace_id)s::uuid), '-infinity'
                      )
                      AND task.due_date < coalesce(
                              time_bound(%(due_before)s::text, %(workspace_id)s::uuid), 'infinity'
                          ))
            ORDER BY task.id DESC
            LIMIT %(limit)s::integer + 1
           ) AS task
     WHERE %(completed_after)s::text IS NULL
       AND %(completed_before)s::text IS NULL
       AND (SELECT count(*) FROM completed) <= %(limit)s::integer
), page AS (
    SELECT * FROM completed
     UNION ALL
    SELECT * FROM open
     ORDER BY completed_at DESC NULLS LAST, id DESC
     LIMIT %(limit)s::integer + 1
)
SELECT json_list(
           ARRAY(
               SELECT task_json(ROW(page.*)::tasks)
                 FROM page
                ORDER BY completed_at DESC NULLS LAST, id DESC
                LIMIT length
           )
       ) AS data,
       (
           ARRAY(
               SELECT keyed_cursor(to_millis(coalesce(completed_at, '1899-01-01T00:00:00Z')), id)
                 FROM page
                ORDER BY completed_at DESC NULLS LAST, id DESC
           )
       )[length] AS next_cursor,
       in_order(%(due_after)s::text, %(due_before)s::text, %(workspace_id)s::uuid) AS due_in_order,
       in_order(
           %(completed_after)s::text, %(completed_before)s::text, %(workspace_id)s::uuid
       ) AS completed_in_order
  FROM page_length(
           ARRAY(
               SELECT text_bytes(ROW(page.*)::tasks)
                 FROM page
                ORDER BY completed_at DESC NULLS LAST, id DESC
           ),
           %(limit)s::integer
       ) AS length;
