-- Change the plan of a workspace.
UPDATE workspaces
   SET plan = %(plan)s
 WHERE slug = %(slug)s
RETURNING id;
