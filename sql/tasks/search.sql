-- planned: for its values
-- One page of the tasks of the active workspace that pass the filters and contain all words of q.
-- PostgreSQL reads the titles of at most 10 000 tasks, the newest that pass the filters. An index
-- of words would make this limit unnecessary, but would make creating a task half as expensive
-- again. LIKE may compare each byte of a title with each byte of the words, so it gets fewer titles
-- if they and the words are long: "found" is NULL for the others.
-- In the order by age, each page continues after the cursor and searches the next 10 000 tasks. In
-- the orders by due date and by completion, only the newest 10 000 tasks are searched.
WITH searched AS MATERIALIZED (
    SELECT id,
           CASE %(sort)s
               WHEN 'dueDate' THEN coalesce(due_date, '9999-01-01T00:00:00Z')
               WHEN 'completedAt' THEN coalesce(completed_at, '1899-01-01T00:00:00Z')
           END AS moment,
           CASE WHEN sum(octet_length(title)) OVER newest * (
                         SELECT sum(octet_length(pattern)) FROM unnest(%(q)s::text[]) AS pattern
                     ) <= 20000000
                THEN lower(title) LIKE ALL (
                         ARRAY(SELECT lower(pattern) FROM unnest(%(q)s::text[]) AS pattern)
                     )
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
     LIMIT 10000
), best AS MATERIALIZED (
    SELECT id,
           moment,
           row_number() OVER (
               ORDER BY CASE %(sort)s WHEN 'dueDate' THEN moment END,
                        moment DESC,
                        CASE %(sort)s WHEN 'dueDate' THEN id END,
                        id DESC
           ) AS number
      FROM searched
     WHERE found
       AND (%(after)s::bigint IS NULL
            OR CASE %(sort)s
                   WHEN 'dueDate' THEN (moment, id) > (from_millis(%(after)s), %(after_id)s)
                   ELSE (moment, id) < (from_millis(%(after)s), %(after_id)s)
               END)
     ORDER BY number
     LIMIT %(limit)s + 1
), last AS MATERIALIZED (
    -- The last task that was compared, if others follow it: the next page begins after it. It has
    -- no number, so it is the last row.
    SELECT id, NULL::timestamptz AS moment, NULL::bigint AS number
      FROM searched
     WHERE %(sort)s IS NULL
       AND found IS NOT NULL
       AND CASE WHEN (SELECT count(*) FROM best) <= %(limit)s
                THEN (SELECT count(*) = 10000 OR count(*) > count(found) FROM searched)
           END
     ORDER BY id
     LIMIT 1
)
SELECT CASE
           WHEN number IS NOT NULL AND fits_page(sum(text_bytes(task)) OVER page)
           THEN task_json(task)
       END AS body,
       CASE
           WHEN number IS NULL THEN id_cursor(task.id)
           WHEN moment IS NULL THEN id_cursor(lag(task.id) OVER page)
           ELSE keyed_cursor(to_millis(lag(moment) OVER page), lag(task.id) OVER page)
       END AS cursor
  FROM (SELECT * FROM best UNION ALL SELECT * FROM last) AS listed
  JOIN tasks AS task ON task.workspace_id = %(workspace_id)s AND task.id = listed.id
WINDOW page AS (ORDER BY number ROWS UNBOUNDED PRECEDING)
 ORDER BY number;
