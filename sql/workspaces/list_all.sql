-- All workspaces, oldest first, for operators.
SELECT workspace.id,
       workspace.slug,
       workspace.name,
       workspace.plan,
       workspace.member_count,
       iso(workspace.created_at) AS created_at
  FROM workspaces AS workspace
 ORDER BY workspace.id;
