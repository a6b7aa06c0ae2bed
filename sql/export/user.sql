-- The users of an exported workspace: its members, and the authors who have left the workspace.
SELECT json_build_object(
           'id', person.id,
           'email', person.email,
           'name', person.name,
           'createdAt', iso(person.created_at),
           'deactivatedAt', iso(person.deactivated_at)
       )::text AS body
  FROM users AS person
 WHERE person.id IN (
           SELECT member.user_id FROM members AS member WHERE member.workspace_id = %(id)s::uuid
            UNION ALL
           SELECT task.created_by FROM tasks AS task WHERE task.workspace_id = %(id)s::uuid
            UNION ALL
           SELECT meeting.created_by
             FROM meetings AS meeting
            WHERE meeting.workspace_id = %(id)s::uuid
       )
 ORDER BY person.id;
