-- Remove a user from a workspace, unless the user is its last owner.
-- The statement locks the owners in one order, so that two owners cannot leave at the same time.
WITH owner AS MATERIALIZED (
    SELECT member.user_id
      FROM members AS member
      JOIN workspaces AS workspace ON workspace.id = member.workspace_id
     WHERE workspace.slug = %(slug)s
       AND member.role = 'owner'
     ORDER BY member.user_id
       FOR UPDATE OF member
), leaving AS (
    SELECT member.workspace_id, member.user_id
      FROM members AS member
      JOIN workspaces AS workspace ON workspace.id = member.workspace_id
      JOIN users AS person ON person.id = member.user_id
     WHERE workspace.slug = %(slug)s
       AND lower(person.email) = lower(%(email)s)
), removed AS (
    DELETE FROM members AS member
     USING leaving
     WHERE member.workspace_id = leaving.workspace_id
       AND member.user_id = leaving.user_id
       AND (
               member.role <> 'owner'
               OR EXISTS (SELECT FROM owner WHERE owner.user_id <> leaving.user_id)
           )
 RETURNING member.user_id
)
SELECT leaving.user_id AS id,
       EXISTS (SELECT FROM removed) AS done
  FROM leaving;
