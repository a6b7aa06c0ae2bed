-- All members of a workspace that the caller belongs to, in the order of joining; no row for any other.
SELECT json_agg(
           json_build_object(
               'userId', person.id,
               'name', person.name,
               'email', person.email,
               'role', member.role,
               'joinedAt', iso(member.joined_at)
           )
           ORDER BY member.joined_at, person.id
       ) AS body
  FROM members AS caller
  JOIN members AS member ON member.workspace_id = caller.workspace_id
  JOIN users AS person ON person.id = member.user_id
 WHERE caller.user_id = %(user_id)s::uuid
   AND caller.workspace_id = %(id)s::uuid
HAVING count(*) > 0;
