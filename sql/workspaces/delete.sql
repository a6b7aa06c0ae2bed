-- Delete a workspace whose memberships have ended, and what is left in it.
DELETE FROM workspaces
 WHERE id = %(id)s
RETURNING id;
