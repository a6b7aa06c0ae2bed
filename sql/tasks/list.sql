-- One page of the tasks of the active workspace, newest first.
-- The first page has an upper bound as well, so that PostgreSQL uses the index for the bound on
-- every page.
SELECT CASE WHEN fits_page(sum(text_bytes(task)) OVER page) THEN task_json(task) END AS body,
       id_cursor(lag(id) OVER page) AS cursor
  FROM tasks AS task
 WHERE workspace_id = %(workspace_id)s
   AND id < coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
WINDOW page AS (ORDER BY id DESC ROWS UNBOUNDED PRECEDING)
 ORDER BY id DESC
 LIMIT %(limit)s + 1;
