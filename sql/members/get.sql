-- A member of a workspace of the caller, or the name of an author who has left it.
-- Whoever made a task or a meeting of the workspace was a member; a deleted user has no name.
SELECT row_to_json(
           ROW(
               account.id,
               account.name,
               CASE WHEN member.user_id IS NOT NULL THEN account.email END,
               member.role,
               iso(member.joined_at)
           )::member_document
       ) AS body
  FROM memberships(%(user_id)s::uuid, %(token_workspace_id)s::uuid) AS caller
  JOIN users AS account ON account.id = %(member_id)s::uuid
  LEFT JOIN members AS member
    ON member.workspace_id = caller.workspace_id AND member.user_id = account.id
 WHERE caller.workspace_id = %(id)s::uuid
   AND (member.user_id IS NOT NULL
        OR EXISTS (
               SELECT
                 FROM tasks
                WHERE tasks.workspace_id = %(id)s::uuid
                  AND tasks.created_by = %(member_id)s::uuid
           )
        OR EXISTS (
               SELECT
                 FROM meetings
                WHERE meetings.workspace_id = %(id)s::uuid
                  AND meetings.created_by = %(member_id)s::uuid
           ));
