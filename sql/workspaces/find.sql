-- Find the workspaces with these slugs, each with its oldest owner, the default author for load.
SELECT workspace.slug,
       workspace.id::text,
       (
           SELECT member.user_id::text
             FROM members AS member
            WHERE member.workspace_id = workspace.id
              AND member.role = 'owner'
            ORDER BY member.joined_at, member.user_id
            LIMIT 1
       ) AS owner_id
  FROM workspaces AS workspace
 WHERE workspace.slug = ANY (%(slugs)s::text[]);
