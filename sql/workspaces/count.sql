-- Count the members, tasks and meetings that would be deleted with a workspace.
SELECT workspace.member_count AS members,
       (SELECT count(*) FROM tasks AS task WHERE task.workspace_id = workspace.id) AS tasks,
       (SELECT count(*) FROM meetings AS meeting WHERE meeting.workspace_id = workspace.id)
       AS meetings
  FROM workspaces AS workspace
 WHERE workspace.id = %(id)s;
