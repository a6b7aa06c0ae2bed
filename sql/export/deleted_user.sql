-- The deleted users whom the tasks and meetings of a workspace name.
SELECT json_build_object('id', author.id, 'deletedAt', iso(gone.deleted_at)) AS body
  FROM named_users(%(id)s) AS author (id)
  LEFT JOIN deleted_users AS gone ON gone.id = author.id
 WHERE author.id IS NOT NULL
   AND NOT EXISTS (SELECT FROM users WHERE id = author.id)
 ORDER BY author.id;
