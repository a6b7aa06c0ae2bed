-- Set the active workspace of a user, who must be a member of that workspace.
UPDATE users AS person
   SET active_workspace_id = member.workspace_id
  FROM members AS member
  JOIN workspaces AS workspace ON workspace.id = member.workspace_id
 WHERE member.user_id = person.id
   AND lower(person.email) = lower(%(email)s)
   AND workspace.slug = %(slug)s
RETURNING workspace.id;
