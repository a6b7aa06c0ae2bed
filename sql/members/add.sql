-- Add a user to a workspace. Admins may add plain members; owners may add members of any role.
-- An operator (a NULL as user_id) may even add a deactivated user.
-- If this request has created the user, the workspace becomes the user's active workspace.
-- A user who already existed keeps the active workspace. An operator also makes the workspace the
-- active one of a user who has no active workspace.
WITH account AS MATERIALIZED (
    -- The user comes first in the order of locks.
    SELECT *
      FROM users
     WHERE lower(email) = lower(%(email)s)
       AND acting_role(%(user_id)s, %(token_workspace_id)s, %(id)s) IS NOT NULL
       FOR NO KEY UPDATE
), asked AS MATERIALIZED (
    SELECT acting = 'owner' OR acting = 'admin' AND %(role)s::text = 'member' AS permitted,
           account.id AS user_id,
           account.deactivated_at IS NULL OR %(user_id)s::uuid IS NULL AS can_join
      FROM acting_role(%(user_id)s, %(token_workspace_id)s, %(id)s) AS acting
      LEFT JOIN account ON true
     WHERE acting IS NOT NULL
), joined AS (
    INSERT INTO members (workspace_id, user_id, role)
    SELECT %(id)s, asked.user_id, %(role)s
      FROM asked
     WHERE permitted
       AND can_join
       AND asked.user_id IS NOT NULL
        ON CONFLICT (workspace_id, user_id) DO NOTHING
 RETURNING *
), activated AS (
    UPDATE users AS person
       SET active_workspace_id = joined.workspace_id
      FROM joined
     WHERE person.id = joined.user_id
       AND person.active_workspace_id IS NULL
       AND (person.id = %(created_id)s OR %(user_id)s::uuid IS NULL)
)
SELECT asked.permitted,
       asked.can_join,
       account.id,
       (
           SELECT member_json(ROW(account.*)::users, joined.role, joined.joined_at) FROM joined
       ) AS body
  FROM asked
  LEFT JOIN account ON true;
