-- All workspaces that the caller belongs to, oldest first.
SELECT workspace_json(workspace) AS body
  FROM memberships(%(user_id)s, %(token_workspace_id)s) AS member
  JOIN workspaces AS workspace ON workspace.id = member.workspace_id
 ORDER BY workspace.id;
