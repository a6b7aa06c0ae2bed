-- Change the plan of a workspace.
UPDATE workspaces AS workspace
   SET plan = %(plan)s
 WHERE workspace.slug = %(slug)s
RETURNING workspace.id;
