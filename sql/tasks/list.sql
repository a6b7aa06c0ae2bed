-- One page of the tasks of the active workspace, newest first.
-- The first page has an upper bound as well, so that PostgreSQL uses the index for the bound on
-- every page.
WITH page AS (
    SELECT *
      FROM tasks
     WHERE workspace_id = %(workspace_id)s
       AND id < coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
     ORDER BY id DESC
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
