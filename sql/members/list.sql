-- The members of a workspace, or the member with this address, in the order in which they joined,
-- for operators.
SELECT person.id AS user_id,
       person.email,
       person.name,
       member.role,
       iso(member.joined_at) AS joined_at
  FROM members AS member
  JOIN users AS person ON person.id = member.user_id
 WHERE member.workspace_id = %(id)s
   AND (%(email)s::text IS NULL OR lower(person.email) = lower(%(email)s))
 ORDER BY member.joined_at, person.id;
