-- One page of the tasks of the active workspace that pass the filters, newest first.
-- PostgreSQL plans this statement for its values, and so chooses the index that suits these
-- filters.
WITH page AS (
    SELECT task.*
      FROM tasks AS task
     WHERE task.workspace_id = %(workspace_id)s::uuid
       AND task.id < coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
       AND is_any(task.status, %(status)s::text[])
       AND matches(
               task,
               %(priority)s::text[],
               %(assignee)s::text,
               %(user_id)s::uuid,
               %(project_id)s::text,
               %(parent_id)s::text
           )
       -- In the index the status precedes the date, so the condition names every status.
       AND (%(due_after)s::text IS NULL AND %(due_before)s::text IS NULL
            OR task.status IN ('todo', 'in_progress', 'done')
               AND task.due_date >= coalesce(
                       time_bound(%(due_after)s::text, %(workspace_id)s::uuid), '-infinity'
                   )
               AND task.due_date < coalesce(
                       time_bound(%(due_before)s::text, %(workspace_id)s::uuid), 'infinity'
                   ))
       AND (%(completed_after)s::text IS NULL AND %(completed_before)s::text IS NULL
            OR is_any('done', %(status)s::text[])
               AND task.status = 'done'
               AND task.completed_at >= coalesce(
                       time_bound(%(completed_after)s::text, %(workspace_id)s::uuid), '-infinity'
                   )
               AND task.completed_at < coalesce(
                       time_bound(%(completed_before)s::text, %(workspace_id)s::uuid), 'infinity'
                   ))
     -- If the assignee is "none", assignee_id is always NULL. Naming it in ORDER BY lets the index
     -- provide the order.
     ORDER BY CASE %(assignee)s::text WHEN 'none' THEN task.assignee_id END DESC, task.id DESC
     LIMIT %(limit)s::integer + 1
)
SELECT json_list(
           ARRAY(SELECT task_json(ROW(page.*)::tasks) FROM page ORDER BY id DESC LIMIT length)
       ) AS data,
       id_cursor((ARRAY(SELECT id FROM page ORDER BY id DESC))[length]) AS next_cursor,
       in_order(%(due_after)s::text, %(due_before)s::text, %(workspace_id)s::uuid) AS due_in_order,
       in_order(
           %(completed_after)s::text, %(completed_before)s::text, %(workspace_id)s::uuid
       ) AS completed_in_order
  FROM page_length(
           ARRAY(SELECT text_bytes(ROW(page.*)::tasks) FROM page ORDER BY id DESC),
           %(limit)s::integer
       ) AS length;
