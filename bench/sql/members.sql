-- Each user belongs to the active workspace and to two more.
INSERT INTO members (workspace_id, user_id, role)
SELECT bench_id((number + other) %% %(workspaces)s::integer), bench_id(number), 'member'
  FROM generate_series(0, %(users)s::integer - 1) AS number
 CROSS JOIN generate_series(0, 2) AS other;
