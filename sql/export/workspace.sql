-- Return the line of an export from which the command load creates the workspace.
SELECT json_join(
           workspace_details(workspace), json_build_object('version', version)
       ) AS body
  FROM workspaces AS workspace
 WHERE id = %(id)s;
