-- Fill the tables with numbered workspaces, users and tasks.
-- Each user is a member of three workspaces, and has an API token (bench-0, bench-1, ...) and a
-- session (session-0, session-1, ...). All tasks with odd numbers belong to workspace 0. Tasks with even numbers are spread over all workspaces.
WITH plan AS (
    -- These limits are so high that no request gets 429.
    UPDATE plans SET per_minute = 2000000000, per_day = 2000000000
), workspace AS (
    INSERT INTO workspaces (id, name, slug, plan, member_count)
    SELECT bench_id(number), 'Workspace ' || number, 'workspace-' || number, 'Team',
           3 * %(users)s::integer / %(workspaces)s::integer
      FROM generate_series(0, %(workspaces)s::integer - 1) AS number
), person AS (
    INSERT INTO users (id, email, name, active_workspace_id)
    SELECT bench_id(number), 'user-' || number || '@example.com', 'User ' || number,
           bench_id(number %% %(workspaces)s::integer)
      FROM generate_series(0, %(users)s::integer - 1) AS number
), member AS (
    INSERT INTO members (workspace_id, user_id, role)
    SELECT bench_id((number + other) %% %(workspaces)s::integer), bench_id(number), 'member'
      FROM generate_series(0, %(users)s::integer - 1) AS number
     CROSS JOIN generate_series(0, 2) AS other
), token AS (
    INSERT INTO tokens (user_id, kind, scope, hash, expires_at)
    SELECT bench_id(number), kind, 'write', sha256((beginning || number)::bytea), expires_at
      FROM generate_series(0, %(users)s::integer - 1) AS number
     CROSS JOIN (
               VALUES ('api', 'bench-', NULL),
                      ('session', 'session-', now() + interval '1 day')
           ) AS credential (kind, beginning, expires_at)
)
INSERT INTO tasks (
           workspace_id, id, title, description, status, priority, due_date, assignee_id,
           project_id, created_by, created_at, updated_at, completed_at
       )
SELECT bench_id(CASE WHEN number %% 2 = 1 THEN 0 ELSE number / 2 %% %(workspaces)s::integer END),
       bench_id(number),
       'Prepare the release notes, part ' || number,
       'What changed since the last release, in the words of those who use it; number ' || number,
       CASE WHEN number %% 3 = 0 THEN 'done' ELSE 'todo' END,
       CASE WHEN number %% 5 = 0 THEN 'high' ELSE 'medium' END,
       CASE WHEN number %% 2 = 1 THEN now() + (number %% 60 - 30) * interval '1 day' END,
       CASE WHEN number %% 4 = 1 THEN bench_id(%(workspaces)s::integer) END,
       CASE WHEN number %% 8 = 1 THEN 'common' END,
       bench_id(0),
       at,
       at,
       CASE WHEN number %% 3 = 0 THEN at END
  FROM generate_series(0::bigint, %(tasks)s::bigint - 1) AS number
 CROSS JOIN LATERAL to_timestamp((1700000000000 + number) / 1000.0) AS at;
