-- All workspaces, oldest first, for operators.
SELECT id,
       slug,
       name,
       plan,
       member_count,
       iso(created_at) AS created_at,
       CASE
           WHEN has_moved THEN 'moved'
           WHEN moves_to IS NOT NULL THEN 'frozen'
           ELSE 'open'
       END AS state
  FROM workspaces
 ORDER BY id;
