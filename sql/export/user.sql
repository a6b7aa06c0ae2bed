-- The users of an exported workspace: its members, and the former members whom its tasks and
-- meetings name.
SELECT json_build_object(
           'id', id,
           'email', email,
           'name', name,
           'createdAt', iso(created_at),
           'deactivatedAt', iso(deactivated_at)
       ) AS body
  FROM users
 WHERE id IN (
           SELECT user_id FROM members WHERE workspace_id = %(id)s
            UNION ALL
           SELECT id FROM named_users(%(id)s) AS id
       )
 ORDER BY id;
