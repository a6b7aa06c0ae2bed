-- Whether the caller may manage the webhooks of the active workspace; no row without a workspace.
SELECT member.role IN ('owner', 'admin') AS permitted
  FROM members AS member
 WHERE member.workspace_id = %(workspace_id)s::uuid
   AND member.user_id = %(user_id)s::uuid;
