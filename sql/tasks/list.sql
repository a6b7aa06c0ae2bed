-- One page of the tasks of the active workspace, newest first.
-- The first page has a bound too: without one Postgres would filter where it can seek.
WITH page AS (
    SELECT task_json(task) AS document,
           replace(task.id::text, '-', '') AS cursor
      FROM tasks AS task
     WHERE task.workspace_id = %(workspace_id)s::uuid
       AND task.id < coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
     ORDER BY task.id DESC
     LIMIT %(limit)s::integer + 1
)
SELECT page_json(array_agg(document), array_agg(cursor), %(limit)s::integer) AS body,
       next_cursor(array_agg(cursor), %(limit)s::integer) AS next_cursor
  FROM page;
