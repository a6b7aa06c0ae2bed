-- Find the member of a workspace with this e-mail address.
SELECT person.id,
       person.name
  FROM members AS member
  JOIN users AS person ON person.id = member.user_id
 WHERE member.workspace_id = %(id)s
   AND lower(person.email) = lower(%(email)s);
