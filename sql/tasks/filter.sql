-- planned: for its values
-- One page of the tasks of the active workspace that pass the filters, newest first.
-- PostgreSQL chooses the index that suits these filters.
WITH page AS (
    SELECT *
      FROM tasks AS task
     WHERE workspace_id = %(workspace_id)s
       AND id < coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
       AND matches(task, %(filters)s, %(user_id)s, %(workspace_id)s)
     -- If the assignee is "none", assignee_id is always NULL. Naming it in ORDER BY lets the index
     -- provide the order.
     ORDER BY CASE %(filters)s::jsonb ->> 'assignee' WHEN 'none' THEN assignee_id END DESC,
              id DESC
     LIMIT %(limit)s + 1
)
SELECT json_list(
           ARRAY(SELECT task_json(page::tasks) FROM page ORDER BY id DESC LIMIT length)
       ) AS data,
       id_cursor((ARRAY(SELECT id FROM page ORDER BY id DESC))[length]) AS next_cursor
  FROM page_length(
           ARRAY(SELECT text_bytes(page::tasks) FROM page ORDER BY id DESC),
           %(limit)s
       ) AS length;
