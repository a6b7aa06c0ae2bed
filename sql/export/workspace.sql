-- A workspace, as the line from which the command load creates it.
SELECT json_join(
           workspace_details(workspace), json_build_object('version', workspace.version)
       )::text AS body
  FROM workspaces AS workspace
 WHERE workspace.id = %(id)s::uuid;
