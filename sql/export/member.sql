-- The members of a workspace, in the order of joining.
SELECT json_build_object(
           'user', user_id,
           'role', role,
           'joinedAt', iso(joined_at)
       ) AS body
  FROM members
 WHERE workspace_id = %(id)s
 ORDER BY joined_at, user_id;
