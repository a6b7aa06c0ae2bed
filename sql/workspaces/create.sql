-- Create a workspace.
INSERT INTO workspaces (name, slug, plan)
VALUES (%(name)s, %(slug)s, %(plan)s)
RETURNING id;
