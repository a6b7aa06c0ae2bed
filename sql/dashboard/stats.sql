-- The figures of one workspace that the caller belongs to, in one snapshot; no row for any other.
-- "Today" is the day that it is in the workspace's timezone.
SELECT json_build_object(
           'workspaceId', workspace.id,
           'generatedAt', iso(now()),
           'tasks', json_build_object(
               'total', task.total,
               'todo', task.todo,
               'inProgress', task.in_progress,
               'done', task.done,
               'overdue', task.overdue,
               'dueToday', task.due_today,
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
       SELECT count(*) AS total,
              count(*) FILTER (WHERE status = 'todo') AS todo,
              count(*) FILTER (WHERE status = 'in_progress') AS in_progress,
              count(*) FILTER (WHERE status = 'done') AS done,
              count(*) FILTER (WHERE status <> 'done' AND due_date < now()) AS overdue,
              count(*) FILTER (
                  WHERE status <> 'done'
                    AND due_date >= local_midnight AT TIME ZONE workspace.timezone
                    AND due_date < (local_midnight + interval '1 day') AT TIME ZONE workspace.timezone
              ) AS due_today,
              count(*) FILTER (WHERE priority = 'urgent') AS urgent,
              count(*) FILTER (WHERE priority = 'high') AS high,
              count(*) FILTER (WHERE priority = 'medium') AS medium,
              count(*) FILTER (WHERE priority = 'low') AS low
         FROM tasks
        WHERE tasks.workspace_id = workspace.id
       ) AS task
 CROSS JOIN LATERAL (
       SELECT count(*) AS total,
              count(*) FILTER (WHERE start_time > now()) AS upcoming,
              count(*) FILTER (WHERE status = 'completed') AS completed
         FROM meetings
        WHERE meetings.workspace_id = workspace.id
       ) AS meeting
 WHERE member.user_id = %(user_id)s::uuid
   AND member.workspace_id = coalesce(%(only_workspace_id)s::uuid, %(workspace_id)s::uuid);
