-- Add a user to a workspace, or change the role of a member, unless the member is its last owner.
-- The statement locks the owners in one order, so that two owners cannot give up at the same time.
-- A user without an active workspace gets this one.
WITH owner AS MATERIALIZED (
    SELECT member.user_id
      FROM members AS member
      JOIN workspaces AS workspace ON workspace.id = member.workspace_id
     WHERE workspace.slug = %(slug)s
       AND member.role = 'owner'
     ORDER BY member.user_id
       FOR UPDATE OF member
), chosen AS (
    SELECT workspace.id AS workspace_id, person.id AS user_id
      FROM workspaces AS workspace, users AS person
     WHERE workspace.slug = %(slug)s
       AND lower(person.email) = lower(%(email)s)
), joined AS (
    INSERT INTO members AS member (workspace_id, user_id, role)
    SELECT chosen.workspace_id, chosen.user_id, %(role)s
      FROM chosen
     -- Always true: it locks the owners before ON CONFLICT locks the member.
     WHERE (SELECT count(*) FROM owner) >= 0
        ON CONFLICT (workspace_id, user_id) DO UPDATE
       SET role = excluded.role
     WHERE member.role <> 'owner'
        OR excluded.role = 'owner'
        OR EXISTS (SELECT FROM owner WHERE owner.user_id <> member.user_id)
 RETURNING member.workspace_id, member.user_id
), activated AS (
    UPDATE users AS person
       SET active_workspace_id = joined.workspace_id
      FROM joined
     WHERE person.id = joined.user_id
       AND person.active_workspace_id IS NULL
)
SELECT chosen.user_id AS id,
       EXISTS (SELECT FROM joined) AS done
  FROM chosen;
