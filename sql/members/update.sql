-- Change the role of a member of a workspace, unless the workspace would then have no owner.
WITH asked AS MATERIALIZED (
    SELECT role, permitted, has_owner
      FROM lock_member(%(user_id)s, %(token_workspace_id)s, %(id)s, %(member_id)s, %(role)s)
), changed AS (
    UPDATE members AS member
       SET role = %(role)s
      FROM asked
     WHERE member.workspace_id = %(id)s
       AND member.user_id = %(member_id)s
       AND permitted
       AND has_owner
       AND asked.role <> %(role)s
)
SELECT asked.permitted,
       asked.has_owner,
       member_json(account, coalesce(%(role)s, asked.role), member.joined_at) AS body
  FROM asked
  JOIN members AS member
    ON member.workspace_id = %(id)s
   AND member.user_id = %(member_id)s
  JOIN users AS account ON account.id = member.user_id;
