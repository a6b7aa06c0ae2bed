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
                   WHERE tasks.workspace_id = workspace.id AND tasks.status = 'todo'
              ) AS todo,
              (
                  SELECT count(*) FROM tasks
                   WHERE tasks.workspace_id = workspace.id AND tasks.status = 'in_progress'
              ) AS in_progress,
              (
                  SELECT count(*) FROM tasks
                   WHERE tasks.workspace_id = workspace.id AND tasks.status = 'done'
              ) AS done,
              (
                  SELECT count(*) FROM tasks
                   WHERE tasks.workspace_id = workspace.id AND tasks.priority = 'urgent'
              ) AS urgent,
              (
                  SELECT count(*) FROM tasks
                   WHERE tasks.workspace_id = workspace.id AND tasks.priority = 'high'
              ) AS high,
              (
                  SELECT count(*) FROM tasks
                   WHERE tasks.workspace_id = workspace.id AND tasks.priority = 'low'
              ) AS low
       -- OFFSET 0 keeps PostgreSQL from inlining the subquery and counting again wherever a count
       -- is used.
       OFFSET 0
       ) AS task
 CROSS JOIN LATERAL (
       SELECT count(*) AS overdue
         FROM tasks
        WHERE tasks.workspace_id = workspace.id
          AND tasks.status IN ('todo', 'in_progress')
          AND tasks.due_date < now()
       ) AS late
 CROSS JOIN LATERAL (
       SELECT count(*) AS due_today
         FROM tasks
        WHERE tasks.workspace_id = workspace.id
          AND tasks.status IN ('todo', 'in_progress')
          AND tasks.due_date >= beginning_of_day(today.date, workspace.timezone)
          AND tasks.due_date < beginning_of_day(today.date + 1, workspace.timezone)
       ) AS daily
 CROSS JOIN LATERAL (
       SELECT count(*) AS total,
              count(*) FILTER (WHERE start_time > now()) AS upcoming,
              count(*) FILTER (WHERE status = 'completed') AS completed
         FROM meetings
        WHERE meetings.workspace_id = workspace.id
       ) AS meetings
 CROSS JOIN LATERAL (
       SELECT task.urgent,
              task.high,
              task.todo + task.in_progress + task.done - task.urgent - task.high - task.low
                  AS medium,
              task.low
       ) AS priorities
 CROSS JOIN LATERAL (
       SELECT task.todo + task.in_progress + task.done AS total,
              task.todo,
              task.in_progress AS "inProgress",
              task.done,
              late.overdue,
              daily.due_today AS "dueToday",
              priorities AS "byPriority"
       ) AS tasks
 CROSS JOIN LATERAL (
       SELECT count(*) AS unread
         FROM mail
        WHERE mail.workspace_id = workspace.id
          AND mail.user_id = member.user_id
          AND NOT mail.read
       ) AS mail
 CROSS JOIN LATERAL (
       SELECT count(*) AS pending
         FROM suggestions AS suggestion
        WHERE suggestion.workspace_id = workspace.id
          AND suggestion.status = 'pending'
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
