-- planned: for its values
-- One page of the tasks of the active workspace that pass the filters, newest first.
-- PostgreSQL chooses the index that suits these filters. If the assignee is "none", assignee_id is
-- always NULL: naming it in the order lets the index provide the order.
SELECT CASE WHEN fits_page(sum(text_bytes(task)) OVER page) THEN task_json(task) END AS body,
       id_cursor(lag(id) OVER page) AS cursor
  FROM tasks AS task
 WHERE workspace_id = %(workspace_id)s
   AND id < coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
   AND matches(task, %(filters)s, %(user_id)s, %(workspace_id)s)
WINDOW page AS (
       ORDER BY CASE %(filters)s::jsonb ->> 'assignee' WHEN 'none' THEN assignee_id END DESC,
                id DESC
        ROWS UNBOUNDED PRECEDING
       )
 ORDER BY CASE %(filters)s::jsonb ->> 'assignee' WHEN 'none' THEN assignee_id END DESC, id DESC
 LIMIT %(limit)s + 1;
