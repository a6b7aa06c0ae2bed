-- One workspace that the caller belongs to.
SELECT workspace_details(workspace) AS body, workspace.version
  FROM memberships(%(user_id)s, %(token_workspace_id)s) AS member
  JOIN workspaces AS workspace ON workspace.id = member.workspace_id
 WHERE member.workspace_id = %(id)s;
