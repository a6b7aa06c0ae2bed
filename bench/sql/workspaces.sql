-- The workspaces, numbered from 0.
INSERT INTO workspaces (id, name, slug, plan)
SELECT bench_id(number), 'Workspace ' || number, 'workspace-' || number, 'Team'
  FROM generate_series(0, %(workspaces)s::integer - 1) AS number;
