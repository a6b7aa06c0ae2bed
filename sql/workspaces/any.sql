-- Return a workspace, if there is any.
SELECT id FROM workspaces LIMIT 1;
