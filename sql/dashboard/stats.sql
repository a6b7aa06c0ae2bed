-- The figures of one workspace of the caller, in one snapshot; no row if the caller may not use it.
-- Each count reads one range of an index. "medium", the commonest priority, is what the other
-- priorities leave. The figures are not kept in counters, because updating the counters would make
-- the creation of a task a sixth more expensive.
-- "Today" is the current day in the timezone of the workspace.
SELECT row_to_json(stats) AS body
  FROM memberships(%(user_id)s, %(token_workspace_id)s) AS member
  JOIN workspaces AS workspace ON workspace.id = member.workspace_id
 CROSS JOIN LATERAL (
       SELECT (now() AT TIME ZONE zone_name(workspace.timezone))::date AS date
       ) AS today
 CROSS JOIN LATERAL (
       SELECT (
                  SELECT count(*) FROM tasks
                   WHERE workspace_id = workspace.id AND status = 'todo'
              ) AS todo,
              (
                  SELECT count(*) FROM tasks
                   WHERE workspace_id = workspace.id AND status = 'in_progress'
              ) AS in_progress,
              (
                  SELECT count(*) FROM tasks
                   WHERE workspace_id = workspace.id AND status = 'done'
              ) AS done,
              (
                  SELECT count(*) FROM tasks
                   WHERE workspace_id = workspace.id AND priority = 'urgent'
              ) AS urgent,
              (
                  SELECT count(*) FROM tasks
                   WHERE workspace_id = workspace.id AND priority = 'high'
              ) AS high,
              (
                  SELECT count(*) FROM tasks
                   WHERE workspace_id = workspace.id AND priority = 'low'
              ) AS low,
              (
                  SELECT count(*) FROM tasks
                   WHERE workspace_id = workspace.id
                     AND status IN ('todo', 'in_progress')
                     AND due_date < now()
              ) AS overdue,
              (
                  SELECT count(*) FROM tasks
                   WHERE workspace_id = workspace.id
                     AND status IN ('todo', 'in_progress')
                     AND due_date >= beginning_of_day(today.date, workspace.timezone)
                     AND due_date < beginning_of_day(today.date + 1, workspace.timezone)
              ) AS due_today
       -- OFFSET 0 keeps PostgreSQL from inlining the subquery and counting again wherever a count
       -- is used.
       OFFSET 0
       ) AS task
 CROSS JOIN LATERAL (
       SELECT count(*) AS total,
              count(*) FILTER (WHERE start_time > now()) AS upcoming,
              count(*) FILTER (WHERE status = 'completed') AS completed
         FROM meetings
        WHERE workspace_id = workspace.id
       ) AS meetings
 CROSS JOIN LATERAL (
       SELECT urgent, high, todo + in_progress + done - urgent - high - low AS medium, low
       ) AS priorities
 CROSS JOIN LATERAL (
       SELECT todo + in_progress + done AS total,
              todo,
              in_progress AS "inProgress",
              done,
              overdue,
              due_today AS "dueToday",
              priorities AS "byPriority"
       ) AS tasks
 CROSS JOIN LATERAL (
       SELECT count(*) AS unread
         FROM mail
        WHERE workspace_id = workspace.id
          AND user_id = member.user_id
          AND NOT read
       ) AS mail
 CROSS JOIN LATERAL (
       SELECT count(*) AS pending
         FROM suggestions
        WHERE workspace_id = workspace.id
          AND status = 'pending'
       ) AS suggestions
 CROSS JOIN LATERAL (
       SELECT workspace.id AS "workspaceId",
              iso(now()) AS "generatedAt",
              tasks,
              meetings,
              workspace.member_count AS members,
              mail,
              suggestions
       ) AS stats
 WHERE member.workspace_id = coalesce(%(only_workspace_id)s, %(workspace_id)s::uuid);
