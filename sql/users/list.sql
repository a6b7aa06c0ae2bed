-- All users, or the user with this address or id, with workspaces and roles, oldest first.
-- The id of a deleted user returns a row without name, address and workspaces.
SELECT person.id,
       person.email,
       person.name,
       active.slug AS active_workspace,
       ARRAY(
           SELECT workspace.slug || ':' || member.role
             FROM members AS member
             JOIN workspaces AS workspace ON workspace.id = member.workspace_id
            WHERE member.user_id = person.id
            ORDER BY workspace.slug
       ) AS workspaces,
       iso(person.created_at) AS created_at,
       (
           SELECT iso(max(last_used_at))
             FROM tokens
            WHERE user_id = person.id
       ) AS last_seen_at,
       CASE WHEN person.deactivated_at IS NULL THEN 'active' ELSE 'deactivated' END AS state,
       iso(person.deactivated_at) AS deactivated_at,
       NULL AS deleted_at
  FROM users AS person
  LEFT JOIN workspaces AS active ON active.id = person.active_workspace_id
 WHERE %(email)s::text IS NULL
    OR lower(person.email) = lower(%(email)s)
    OR person.id = %(id)s
 UNION ALL
SELECT id, NULL, NULL, NULL, '{}', NULL, NULL, 'deleted', NULL, iso(deleted_at)
  FROM deleted_users
 WHERE id = %(id)s
   AND NOT EXISTS (SELECT FROM users WHERE id = %(id)s)
 ORDER BY id;
