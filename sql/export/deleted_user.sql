-- The deleted users whom createdBy, updatedBy or completedBy of a workspace's tasks and meetings
-- names.
SELECT json_build_object('id', author.id, 'deletedAt', iso(gone.deleted_at))::text AS body
  FROM (
       SELECT task.created_by AS id FROM tasks AS task WHERE task.workspace_id = %(id)s::uuid
        UNION
       SELECT task.updated_by
         FROM tasks AS task
        WHERE task.workspace_id = %(id)s::uuid
          AND task.updated_by_version = task.version
          AND task.updated_by IS NOT NULL
        UNION
       SELECT task.completed_by
         FROM tasks AS task
        WHERE task.workspace_id = %(id)s::uuid
          AND task.completed_by IS NOT NULL
        UNION
       SELECT meeting.created_by
         FROM meetings AS meeting
        WHERE meeting.workspace_id = %(id)s::uuid
        UNION
       SELECT meeting.updated_by
         FROM meetings AS meeting
        WHERE meeting.workspace_id = %(id)s::uuid
          AND meeting.updated_by_version = meeting.version
          AND meeting.updated_by IS NOT NULL
       ) AS author
  LEFT JOIN deleted_users AS gone ON gone.id = author.id
 WHERE NOT EXISTS (SELECT FROM users AS person WHERE person.id = author.id)
 ORDER BY author.id;
