-- One page of the tasks of the active workspace that pass the filters, newest first.
-- This statement is planned for its values, so that Postgres chooses the index that fits them.
WITH page AS (
    SELECT task_json(task) AS document,
           replace(task.id::text, '-', '') AS cursor
      FROM tasks AS task
     WHERE task.workspace_id = %(workspace_id)s::uuid
       AND task.id < coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
       AND (%(status)s::text IS NULL OR task.status = %(status)s::text)
       AND (%(priority)s::text IS NULL OR task.priority = %(priority)s::text)
       AND (%(assignee_id)s::uuid IS NULL OR task.assignee_id = %(assignee_id)s::uuid)
       AND (%(project_id)s::text IS NULL OR task.project_id = %(project_id)s::text)
       AND (%(parent_id)s::uuid IS NULL OR task.parent_id = %(parent_id)s::uuid)
     ORDER BY task.id DESC
     LIMIT %(limit)s::integer + 1
)
SELECT page_json(array_agg(document), array_agg(cursor), %(limit)s::integer) AS body,
       next_cursor(array_agg(cursor), %(limit)s::integer) AS next_cursor
  FROM page;
