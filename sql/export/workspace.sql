-- A workspace, as its line for the command load.
SELECT workspace_details(workspace)::text AS body
  FROM workspaces AS workspace
 WHERE workspace.id = %(id)s::uuid;
