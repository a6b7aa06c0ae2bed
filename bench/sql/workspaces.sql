-- The workspaces, numbered from 0. Each user belongs to three; no trigger counts them.
INSERT INTO workspaces (id, name, slug, plan, member_count)
SELECT bench_id(number), 'Workspace ' || number, 'workspace-' || number, 'Team',
       3 * %(users)s::integer / %(workspaces)s::integer
  FROM generate_series(0, %(workspaces)s::integer - 1) AS number;
