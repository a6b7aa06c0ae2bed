-- planned: for its values
-- One page of the tasks of the active workspace that pass the filters, contain all words of q and
-- have all pairs of the filter of metadata.
-- PostgreSQL compares at most 10 000 tasks, the newest that pass the other filters. An index of
-- words would make this limit unnecessary, but would make creating a task half as expensive again.
-- LIKE may compare each byte of a title with each byte of the words, so fewer tasks are compared if
-- both are long, or the metadata is: "found" is NULL for the others.
-- In the order by age, the page ends before the first task that was not compared, and the next one
-- goes on after the last that was. In the orders by due date and by completion, only the newest
-- 10 000 tasks are searched.
WITH searched AS MATERIALIZED (
    SELECT id,
           CASE %(sort)s
               WHEN 'dueDate' THEN coalesce(due_date, '9999-01-01T00:00:00Z')
               WHEN 'completedAt' THEN coalesce(completed_at, '1899-01-01T00:00:00Z')
           END AS moment,
           lag(id) OVER newest AS previous_id,
           CASE WHEN row_number() OVER newest <= 10000
                     AND sum(octet_length(title)) OVER newest * (
                             SELECT coalesce(sum(octet_length(pattern)), 0)
                               FROM unnest(%(q)s::text[]) AS pattern
                         ) + coalesce(
                             sum(pg_column_size(metadata))
                                 FILTER (WHERE %(filters)s::jsonb ? 'metadata') OVER newest, 0
                         ) <= 20000000
                THEN lower(title) LIKE ALL (
                         ARRAY(SELECT lower(pattern) FROM unnest(%(q)s::text[]) AS pattern)
                     )
                     AND (NOT %(filters)s::jsonb ? 'metadata'
                          OR coalesce(metadata, '{}') @> (%(filters)s::jsonb -> 'metadata'))
           END AS found
      FROM tasks AS task
     WHERE workspace_id = %(workspace_id)s
       AND (%(after_id)s::uuid IS NULL
            OR %(sort)s IS NOT NULL
            OR id < %(after_id)s)
       AND matches(task, %(filters)s, %(user_id)s, %(workspace_id)s)
    WINDOW newest AS (
           ORDER BY CASE %(filters)s::jsonb ->> 'assignee' WHEN 'none' THEN assignee_id END DESC,
                    id DESC
            ROWS UNBOUNDED PRECEDING
           )
     ORDER BY CASE %(filters)s::jsonb ->> 'assignee' WHEN 'none' THEN assignee_id END DESC,
              id DESC
     LIMIT 10001
), listed AS MATERIALIZED (
    SELECT searched.*,
           row_number() OVER (
               ORDER BY CASE %(sort)s WHEN 'dueDate' THEN moment END,
                        moment DESC,
                        CASE %(sort)s WHEN 'dueDate' THEN id END,
                        id DESC
           ) AS number
      FROM searched
     WHERE CASE WHEN %(sort)s IS NULL THEN found IS NOT FALSE ELSE found END
       AND (%(after)s::bigint IS NULL
            OR CASE %(sort)s
                   WHEN 'dueDate' THEN (moment, id) > (from_millis(%(after)s), %(after_id)s)
                   ELSE (moment, id) < (from_millis(%(after)s), %(after_id)s)
               END)
     ORDER BY number
     LIMIT %(limit)s + 1
)
SELECT CASE
           WHEN found AND fits_page(sum(text_bytes(task)) OVER page)
           THEN task_json(task)
       END AS body,
       CASE
           WHEN %(sort)s IS NULL THEN id_cursor(previous_id)
           ELSE keyed_cursor(to_millis(lag(moment) OVER page), lag(task.id) OVER page)
       END AS cursor
  FROM listed
  JOIN tasks AS task ON task.workspace_id = %(workspace_id)s AND task.id = listed.id
WINDOW page AS (ORDER BY number ROWS UNBOUNDED PRECEDING)
 ORDER BY number;
