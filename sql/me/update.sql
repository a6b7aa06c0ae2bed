-- Change the name of the caller, or choose one of the caller's workspaces as the active one. NULL
-- keeps either.
-- A token that is made for one workspace may change neither, because both changes would be visible
-- in other workspaces.
WITH credential AS MATERIALIZED (
    SELECT workspace_id IS NULL AS can_change
      FROM tokens
     WHERE id = %(token_id)s
       AND user_id = %(user_id)s
), changed AS (
    UPDATE users AS person
       SET name = coalesce(%(name)s, person.name),
           active_workspace_id = coalesce(member.workspace_id, person.active_workspace_id)
      FROM credential
      LEFT JOIN members AS member
             ON member.user_id = %(user_id)s
            AND member.workspace_id = %(id)s
     WHERE person.id = %(user_id)s
       AND can_change
       AND (%(id)s::uuid IS NULL OR member.workspace_id IS NOT NULL)
 RETURNING person.active_workspace_id
)
SELECT can_change,
       EXISTS (SELECT FROM changed) AS is_member,
       (SELECT active_workspace_id FROM changed) AS workspace_id
  FROM credential;
