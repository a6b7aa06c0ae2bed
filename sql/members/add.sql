-- Add a user to a workspace, or change the role of a member.
-- The first workspace of a user becomes the active workspace.
WITH joined AS (
    INSERT INTO members AS member (workspace_id, user_id, role)
    SELECT workspace.id, person.id, %(role)s
      FROM workspaces AS workspace, users AS person
     WHERE workspace.slug = %(slug)s
       AND lower(person.email) = lower(%(email)s)
        ON CONFLICT (workspace_id, user_id) DO UPDATE
       SET role = excluded.role
 RETURNING member.workspace_id, member.user_id
), activated AS (
    UPDATE users AS person
       SET active_workspace_id = joined.workspace_id
      FROM joined
     WHERE person.id = joined.user_id
       AND person.active_workspace_id IS NULL
)
SELECT user_id AS id FROM joined;
