-- All workspaces that the caller belongs to, oldest first.
SELECT coalesce(json_agg(workspace_json(workspace) ORDER BY workspace.id), '[]') AS body
  FROM members AS member
  JOIN workspaces AS workspace ON workspace.id = member.workspace_id
 WHERE member.user_id = %(user_id)s::uuid;
