-- The deleted users who have created tasks or meetings of a workspace.
SELECT json_build_object('id', author.id, 'deletedAt', iso(gone.deleted_at))::text AS body
  FROM (
       SELECT task.created_by AS id FROM tasks AS task WHERE task.workspace_id = %(id)s::uuid
        UNION
       SELECT meeting.created_by
         FROM meetings AS meeting
        WHERE meeting.workspace_id = %(id)s::uuid
       ) AS author
  LEFT JOIN deleted_users AS gone ON gone.id = author.id
 WHERE NOT EXISTS (SELECT FROM users AS person WHERE person.id = author.id)
 ORDER BY author.id;
