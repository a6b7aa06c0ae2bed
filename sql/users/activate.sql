-- Set the active workspace of a user, who must be a member of that workspace.
UPDATE users
   SET active_workspace_id = workspace_id
  FROM members
 WHERE user_id = users.id
   AND lower(email) = lower(%(email)s)
   AND workspace_id = (SELECT id FROM workspaces WHERE slug = %(slug)s)
RETURNING workspace_id AS id;
