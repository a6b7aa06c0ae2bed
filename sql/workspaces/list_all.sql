-- All workspaces, oldest first, for operators.
SELECT id,
       slug,
       name,
       plan,
       member_count,
       iso(created_at) AS created_at
  FROM workspaces
 ORDER BY id;
