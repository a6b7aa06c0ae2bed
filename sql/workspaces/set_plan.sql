-- Put a workspace on another plan.
UPDATE workspaces AS workspace
   SET plan = %(plan)s
 WHERE workspace.slug = %(slug)s
RETURNING workspace.id;
