-- One page of the tasks of the active workspace that pass the filters, newest first.
-- PostgreSQL plans this statement for its values, and so chooses the index that fits the filters.
WITH page AS MATERIALIZED (
    SELECT task.*
      FROM tasks AS task
     WHERE task.workspace_id = %(workspace_id)s::uuid
       AND task.id < coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
       AND (%(status)s::text IS NULL OR task.status = %(status)s::text)
       AND (%(priority)s::text IS NULL OR task.priority = %(priority)s::text)
       AND (%(assignee)s::text IS NULL
            OR CASE %(assignee)s::text
                   WHEN 'me' THEN task.assignee_id = %(user_id)s::uuid
                   WHEN 'none' THEN task.assignee_id IS NULL
                   ELSE task.assignee_id = %(assignee_id)s::uuid
               END)
       AND (%(project_id)s::text IS NULL OR task.project_id = %(project_id)s::text)
       AND (%(parent_id)s::uuid IS NULL OR task.parent_id = %(parent_id)s::uuid)
     -- With "none", assignee_id is always NULL; in ORDER BY, it lets the index provide the order.
     ORDER BY CASE %(assignee)s::text WHEN 'none' THEN task.assignee_id END DESC, task.id DESC
     LIMIT %(limit)s::integer + 1
), page_end AS (
    SELECT last_row(array_agg(bytes ORDER BY id DESC), sum(bytes), %(limit)s::integer) AS number
      FROM (SELECT id, octet_length(description) AS bytes FROM page) AS sizes
)
SELECT coalesce(json_agg(task_json(ROW(task.*)::tasks) ORDER BY task.id DESC), '[]') AS data,
       id_cursor(
           (array_agg(task.id ORDER BY task.id DESC))[(SELECT number FROM page_end)]
       ) AS next_cursor
  FROM (SELECT * FROM page ORDER BY id DESC LIMIT (SELECT number FROM page_end)) AS task;
