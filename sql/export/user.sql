-- The users of an exported workspace: its members, and the former members whom its tasks and
-- meetings name.
SELECT json_build_object(
           'id', person.id,
           'email', person.email,
           'name', person.name,
           'createdAt', iso(person.created_at),
           'deactivatedAt', iso(person.deactivated_at)
       ) AS body
  FROM users AS person
 WHERE person.id IN (
           SELECT member.user_id FROM members AS member WHERE member.workspace_id = %(id)s
            UNION ALL
           SELECT id FROM named_users(%(id)s) AS id
       )
 ORDER BY person.id;
