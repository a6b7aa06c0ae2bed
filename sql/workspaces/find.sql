-- Find the workspaces with these slugs, and the oldest owner of each workspace.
-- The command load takes this owner as the author of objects that name no author.
SELECT workspace.slug,
       workspace.id,
       (
           SELECT member.user_id
             FROM members AS member
            WHERE member.workspace_id = workspace.id
              AND member.role = 'owner'
            ORDER BY member.joined_at, member.user_id
            LIMIT 1
       ) AS owner_id
  FROM workspaces AS workspace
 WHERE workspace.slug = ANY (%(slugs)s::text[]);
