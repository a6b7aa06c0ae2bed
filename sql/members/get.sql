-- A member of a workspace of the caller, or the name of a user who has left the workspace.
-- A deleted user has no name, and so no row.
SELECT person_json(account, member) AS body
  FROM memberships(%(user_id)s, %(token_workspace_id)s) AS caller
  JOIN users AS account ON account.id = %(member_id)s
  LEFT JOIN members AS member
    ON member.workspace_id = caller.workspace_id AND member.user_id = account.id
 WHERE caller.workspace_id = %(id)s
   AND (member.user_id IS NOT NULL
        OR EXISTS (
               SELECT
                 FROM former_members
                WHERE workspace_id = caller.workspace_id
                  AND user_id = account.id
           ));
