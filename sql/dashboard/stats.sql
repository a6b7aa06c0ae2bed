-- The figures of one workspace of the caller, in one snapshot; no row for other workspaces.
-- Triggers count all tasks (task_counts); this statement counts tasks overdue or due today only.
-- "Today" is the current day in the workspace's timezone.
SELECT json_build_object(
           'workspaceId', workspace.id,
           'generatedAt', iso(now()),
           'tasks', json_build_object(
               'total', task.total,
               'todo', task.todo,
               'inProgress', task.in_progress,
               'done', task.done,
               'overdue', late.overdue,
               'dueToday', daily.due_today,
               'byPriority', json_build_object(
                   'urgent', task.urgent,
                   'high', task.high,
                   'medium', task.medium,
                   'low', task.low
               )
           ),
           'meetings', json_build_object(
               'total', meeting.total,
               'upcoming', meeting.upcoming,
               'completed', meeting.completed
           ),
           'members', (
               SELECT count(*) FROM members WHERE members.workspace_id = workspace.id
           ),
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
  FROM members AS member
  JOIN workspaces AS workspace ON workspace.id = member.workspace_id
 CROSS JOIN LATERAL (
       SELECT date_trunc('day', now() AT TIME ZONE workspace.timezone) AS local_midnight
       ) AS today
 CROSS JOIN LATERAL (
       SELECT coalesce(sum(total), 0) AS total,
              coalesce(sum(total) FILTER (WHERE status = 'todo'), 0) AS todo,
              coalesce(sum(total) FILTER (WHERE status = 'in_progress'), 0) AS in_progress,
              coalesce(sum(total) FILTER (WHERE status = 'done'), 0) AS done,
              coalesce(sum(total) FILTER (WHERE priority = 'urgent'), 0) AS urgent,
              coalesce(sum(total) FILTER (WHERE priority = 'high'), 0) AS high,
              coalesce(sum(total) FILTER (WHERE priority = 'medium'), 0) AS medium,
              coalesce(sum(total) FILTER (WHERE priority = 'low'), 0) AS low
         FROM task_counts
        WHERE task_counts.workspace_id = workspace.id
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
          AND tasks.due_date >= local_midnight AT TIME ZONE workspace.timezone
          AND tasks.due_date < (local_midnight + interval '1 day') AT TIME ZONE workspace.timezone
       ) AS daily
 CROSS JOIN LATERAL (
       SELECT count(*) AS total,
              count(*) FILTER (WHERE start_time > now()) AS upcoming,
              count(*) FILTER (WHERE status = 'completed') AS completed
         FROM meetings
        WHERE meetings.workspace_id = workspace.id
       ) AS meeting
 WHERE member.user_id = %(user_id)s::uuid
   AND member.workspace_id = coalesce(%(only_workspace_id)s::uuid, %(workspace_id)s::uuid);
