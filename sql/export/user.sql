-- The users of an exported workspace: its members, and the former members whom createdBy,
-- updatedBy or completedBy of its tasks and meetings names.
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
           SELECT task.updated_by
             FROM tasks AS task
            WHERE task.workspace_id = %(id)s::uuid
              AND task.updated_by_version = task.version
            UNION ALL
           SELECT task.completed_by FROM tasks AS task WHERE task.workspace_id = %(id)s::uuid
            UNION ALL
           SELECT meeting.created_by
             FROM meetings AS meeting
            WHERE meeting.workspace_id = %(id)s::uuid
            UNION ALL
           SELECT meeting.updated_by
             FROM meetings AS meeting
            WHERE meeting.workspace_id = %(id)s::uuid
              AND meeting.updated_by_version = meeting.version
       )
 ORDER BY person.id;
