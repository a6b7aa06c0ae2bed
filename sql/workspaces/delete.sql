-- Delete a workspace with everything in it.
-- Foreign keys then clear the active workspace of its members. So the statement locks the users and
-- the members first, in the order of locks.
WITH person AS MATERIALIZED (
    SELECT account.id
      FROM workspaces AS workspace
      JOIN members AS member ON member.workspace_id = workspace.id
      JOIN users AS account ON account.id = member.user_id
     WHERE workspace.slug = %(slug)s
     ORDER BY account.id
       FOR NO KEY UPDATE OF account
), member AS MATERIALIZED (
    SELECT member.user_id
      FROM workspaces AS workspace
      JOIN members AS member ON member.workspace_id = workspace.id
     WHERE workspace.slug = %(slug)s
       AND (SELECT count(*) FROM person) >= 0
     ORDER BY member.user_id
       FOR UPDATE OF member
)
DELETE FROM workspaces AS workspace
 WHERE workspace.slug = %(slug)s
   AND (SELECT count(*) FROM member) >= 0
RETURNING workspace.id;
