-- All workspaces, oldest first, for operators.
SELECT workspace.id,
       workspace.slug,
       workspace.name,
       workspace.plan,
       (SELECT count(*) FROM members AS member WHERE member.workspace_id = workspace.id) AS members,
       iso(workspace.created_at) AS created_at
  FROM workspaces AS workspace
 ORDER BY workspace.id;
