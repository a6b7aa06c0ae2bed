-- migrate: in batches
-- left: SELECT count(*) FROM tasks
-- Store the author of each task that was never changed as the user who made its last change.
-- Each run visits the next 5000 tasks in the order of the primary key, so that no run searches the
-- whole table for rows. A setting of the session keeps the last visited task. The statement returns
-- the visited tasks, and so it runs again even if none of them needed a value.
-- If a request is changing one of these tasks, the UPDATE waits, and then skips it.
WITH progress AS (
    SELECT coalesce(
               nullif(current_setting('service.visited_tasks', true), ''),
               '{00000000-0000-0000-0000-000000000000,00000000-0000-0000-0000-000000000000}'
           )::uuid[] AS visited
), batch AS MATERIALIZED (
    SELECT task.ctid AS place, task.workspace_id, task.id
      FROM tasks AS task
     WHERE (task.workspace_id, task.id)
         > ((SELECT visited[1] FROM progress), (SELECT visited[2] FROM progress))
     ORDER BY task.workspace_id, task.id
     LIMIT 5000
), changed AS (
    UPDATE tasks AS task
       SET updated_by = task.created_by,
           updated_by_version = 1
     WHERE task.ctid = ANY (ARRAY(SELECT place FROM batch))
       AND task.version = 1
       AND task.updated_at = task.created_at
       AND task.updated_by_version IS NULL
)
SELECT set_config('service.visited_tasks', ARRAY[workspace_id, id]::text, false)
  FROM batch;
