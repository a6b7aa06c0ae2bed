-- The members of a workspace, in the order of joining.
SELECT json_build_object(
           'user', member.user_id,
           'role', member.role,
           'joinedAt', iso(member.joined_at)
       )::text AS body
  FROM members AS member
 WHERE member.workspace_id = %(id)s
 ORDER BY member.joined_at, member.user_id;
