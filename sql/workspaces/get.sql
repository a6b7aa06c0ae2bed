-- One workspace that the caller belongs to.
SELECT workspace_details(workspace) AS body, workspace.version
  FROM members AS member
  JOIN workspaces AS workspace ON workspace.id = member.workspace_id
 WHERE member.user_id = %(user_id)s::uuid
   AND member.workspace_id = %(id)s::uuid;
