-- The figures of one workspace of the caller, in one snapshot; no row for other workspaces.
-- Each count reads one range of an index; the commonest priority is what the others leave. No write
-- pays for it: counters would cost each new task a sixth of its work.
-- "Today" is the current day in the workspace's timezone.
SELECT json_build_object(
           'workspaceId', workspace.id,
           'generatedAt', iso(now()),
           'tasks', json_build_object(
               'total', task.todo + task.in_progress + task.done,
               'todo', task.todo,
               'inProgress', task.in_progress,
               'done', task.done,
               'overdue', late.overdue,
               'dueToday', daily.due_today,
               'byPriority', json_build_object(
                   'urgent', task.urgent,
                   'high', task.high,
                   'medium', task.todo + task.in_progress + task.done
                             - task.urgent - task.high - task.low,
                   'low', task.low
               )
           ),
           'meetings', json_build_object(
               'total', meeting.total,
               'upcoming', meeting.upcoming,
               'completed', meeting.completed
           ),
           'members', workspace.member_count,
           'mail', json_build_object(
               'unread', (
                   SELECT count(*)
                     FROM mail
                    WHERE mail.workspace_id = workspace.id
                      AND mail.user_id = member.user_id
                      AND NOT mail.read
               )
           ),
           'suggestions', json_build_object(
               'pending', (
                   SELECT count(*)
                     FROM suggestions AS suggestion
                    WHERE suggestion.workspace_id = workspace.id
                      AND suggestion.status = 'pending'
               )
           )
       ) AS body
  FROM memberships(%(user_id)s::uuid, %(token_workspace_id)s::uuid) AS member
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
       -- Without OFFSET, PostgreSQL would count anew for each use of a count.
       OFFSET 0
       ) AS task
 CROSS JOIN LATERAL (
       SELECT count(*) AS overdue
         FROM tasks
        WHERE tasks.workspace_id = workspace.id
          AND tasks.status IN ('todo', 'in_progress')
          AND tasks.due_date IS NOT NULL
          AND tasks.due_date < now()
       ) AS late
 CROSS JOIN LATERAL (
       SELECT count(*) AS due_today
         FROM tasks
        WHERE tasks.workspace_id = workspace.id
          AND tasks.status IN ('todo', 'in_progress')
          AND tasks.due_date IS NOT NULL
          AND tasks.due_date >= beginning_of_day(today.date, workspace.timezone)
          AND tasks.due_date < beginning_of_day(today.date + 1, workspace.timezone)
       ) AS daily
 CROSS JOIN LATERAL (
       SELECT count(*) AS total,
              count(*) FILTER (WHERE start_time > now()) AS upcoming,
              count(*) FILTER (WHERE status = 'completed') AS completed
         FROM meetings
        WHERE meetings.workspace_id = workspace.id
       ) AS meeting
 WHERE member.workspace_id = coalesce(%(only_workspace_id)s::uuid, %(workspace_id)s::uuid);
