-- The tasks: odd numbers are in workspace 0, even numbers in all workspaces in turn.
-- The first 40 tasks of workspace 0, its last page, have the rare values.
INSERT INTO tasks (
           workspace_id, id, title, description, status, priority, due_date, assignee_id,
           project_id, parent_id, created_by, created_at, updated_at, completed_at
       )
SELECT bench_id(CASE WHEN number %% 2 = 1 THEN 0 ELSE number / 2 %% %(workspaces)s::integer END),
       bench_id(number),
       'Prepare the release notes, part ' || number,
       'What changed since the last release, in the words of those who use it; number ' || number,
       CASE WHEN rare THEN 'in_progress' WHEN number %% 3 = 0 THEN 'done' ELSE 'todo' END,
       CASE WHEN rare THEN 'urgent' WHEN number %% 5 = 0 THEN 'high' ELSE 'medium' END,
       CASE WHEN number %% 2 = 1 THEN now() + (number %% 60 - 30) * interval '1 day' END,
       CASE WHEN rare THEN bench_id(0) WHEN number %% 4 = 1 THEN bench_id(%(workspaces)s::integer) END,
       CASE WHEN rare THEN 'rare' WHEN number %% 8 = 1 THEN 'common' END,
       CASE WHEN rare AND number > 1 THEN bench_id(1) END,
       bench_id(0),
       at,
       at,
       CASE WHEN number %% 3 = 0 AND NOT rare THEN at END
  FROM generate_series(0::bigint, %(tasks)s::bigint - 1) AS number
 CROSS JOIN LATERAL (
       SELECT to_timestamp((1700000000000 + number) / 1000.0) AS at,
              number %% 2 = 1 AND number < 80 AS rare
       ) AS made;
