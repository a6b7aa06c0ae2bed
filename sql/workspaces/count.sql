-- Count the members, tasks and meetings that would be deleted with a workspace.
SELECT member_count AS members,
       (SELECT count(*) FROM tasks WHERE workspace_id = %(id)s) AS tasks,
       (SELECT count(*) FROM meetings WHERE workspace_id = %(id)s) AS meetings
  FROM workspaces
 WHERE id = %(id)s;
