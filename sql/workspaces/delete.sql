-- Delete a workspace whose memberships have ended, and what is left in it.
DELETE FROM workspaces
 WHERE id = (SELECT lock_workspace(%(id)s))
RETURNING id;
