-- Make a workspace that the caller belongs to the active one.
UPDATE users AS person
   SET active_workspace_id = member.workspace_id
  FROM members AS member
 WHERE person.id = %(user_id)s::uuid
   AND member.user_id = person.id
   AND member.workspace_id = %(id)s::uuid
RETURNING member.workspace_id AS id;
