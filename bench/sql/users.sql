-- The users, in the workspace of their own number modulo the number of workspaces.
INSERT INTO users (id, email, name, active_workspace_id)
SELECT bench_id(number),
       'user-' || number || '@example.com',
       'User ' || number,
       bench_id(number %% %(workspaces)s::integer)
  FROM generate_series(0, %(users)s::integer - 1) AS number;
