-- All members of a workspace of the caller, in the order in which they joined; no row if the caller
-- may not use it.
SELECT member_json(account, member.role, member.joined_at) AS body
  FROM memberships(%(user_id)s, %(token_workspace_id)s) AS caller
  JOIN members AS member ON member.workspace_id = caller.workspace_id
  JOIN users AS account ON account.id = member.user_id
 WHERE caller.workspace_id = %(id)s
 ORDER BY member.joined_at, account.id;
