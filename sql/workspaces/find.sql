-- Find the workspaces with these slugs, and the oldest owner of each workspace.
-- The command load takes this owner as the author of objects that name no author.
SELECT slug,
       id,
       (
           SELECT user_id
             FROM members
            WHERE workspace_id = workspaces.id
              AND role = 'owner'
            ORDER BY joined_at, user_id
            LIMIT 1
       ) AS owner_id
  FROM workspaces
 WHERE slug = ANY (%(slugs)s::text[]);
