-- Find the member of a workspace with this e-mail address.
SELECT person.id,
       person.name
  FROM members AS member
  JOIN workspaces AS workspace ON workspace.id = member.workspace_id
  JOIN users AS person ON person.id = member.user_id
 WHERE workspace.slug = %(slug)s
   AND lower(person.email) = lower(%(email)s);
