-- Delete a workspace with everything in it.
DELETE FROM workspaces AS workspace
 WHERE workspace.slug = %(slug)s
RETURNING workspace.id;
