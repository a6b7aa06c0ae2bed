-- One page of the tasks of the active workspace, newest first.
-- The first page has an upper bound as well, so that PostgreSQL uses the index for the bound on
-- every page.
WITH page AS MATERIALIZED (
    SELECT task.*
      FROM tasks AS task
     WHERE task.workspace_id = %(workspace_id)s::uuid
       AND task.id < coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
     ORDER BY task.id DESC
     LIMIT %(limit)s::integer + 1
), page_end AS (
    SELECT last_row(array_agg(bytes ORDER BY id DESC), sum(bytes), %(limit)s::integer) AS number
      FROM (SELECT id, text_bytes(ROW(page.*)::tasks) AS bytes FROM page) AS sizes
)
SELECT json_list(array_agg(task_json(ROW(task.*)::tasks) ORDER BY task.id DESC)) AS data,
       id_cursor(
           (array_agg(task.id ORDER BY task.id DESC))[(SELECT number FROM page_end)]
       ) AS next_cursor
  FROM (SELECT * FROM page ORDER BY id DESC LIMIT (SELECT number FROM page_end)) AS task;
