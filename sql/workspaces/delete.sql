-- Delete a workspace with everything in it.
-- Foreign keys then clear the active workspace of its members. So the statement locks the users and
-- the members first, in the order of locks.
WITH person AS MATERIALIZED (
    SELECT id
      FROM users
     WHERE id IN (SELECT user_id FROM members WHERE workspace_id = %(id)s)
     ORDER BY id
       FOR NO KEY UPDATE
), member AS MATERIALIZED (
    SELECT user_id
      FROM members
     WHERE workspace_id = %(id)s
       AND (SELECT count(*) FROM person) >= 0
     ORDER BY user_id
       FOR UPDATE
)
DELETE FROM workspaces
 WHERE id = %(id)s
   AND (SELECT count(*) FROM member) >= 0
RETURNING id;
