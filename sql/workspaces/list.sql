-- All workspaces that the caller belongs to, oldest first.
SELECT json_list(array_agg(workspace_json(workspace) ORDER BY workspace.id)) AS body
  FROM memberships(%(user_id)s, %(token_workspace_id)s) AS member
  JOIN workspaces AS workspace ON workspace.id = member.workspace_id;
