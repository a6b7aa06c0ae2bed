-- Delete a user, unless a workspace would lose its last owner; return the slugs of such workspaces.
-- The id is kept, so that an operator can tell a user who was deleted from an id that never
-- existed.
-- The statement locks first the user and then the owners, in the order of locks, so that the last
-- two owners cannot both be deleted at the same time.
WITH person AS MATERIALIZED (
    SELECT id
      FROM users
     WHERE lower(email) = lower(%(email)s)
       FOR UPDATE
), owner AS MATERIALIZED (
    SELECT workspace_id, user_id
      FROM members
     WHERE role = 'owner'
       AND workspace_id IN (
               SELECT workspace_id
                 FROM members
                WHERE user_id = (SELECT id FROM person)
                  AND role = 'owner'
           )
     ORDER BY workspace_id, user_id
       FOR UPDATE
), last_owner AS (
    SELECT workspace.slug
      FROM owner
     CROSS JOIN person
      JOIN workspaces AS workspace ON workspace.id = owner.workspace_id
     GROUP BY workspace.slug
    HAVING bool_and(owner.user_id = person.id)
), deleted AS (
    DELETE FROM users
     WHERE id = (SELECT id FROM person)
       AND NOT EXISTS (SELECT FROM last_owner)
 RETURNING id
), forgotten AS (
    -- These are the keys under the nil workspace. The trigger of members deletes the keys in
    -- workspaces.
    DELETE FROM idempotency_keys
     WHERE workspace_id = '00000000-0000-0000-0000-000000000000'
       AND user_id = (SELECT id FROM deleted)
), remembered AS (
    INSERT INTO deleted_users (id, deleted_at)
    SELECT id, now_ms()
      FROM deleted
        ON CONFLICT (id) DO UPDATE
       SET deleted_at = excluded.deleted_at
)
SELECT id, ARRAY(SELECT slug FROM last_owner ORDER BY slug) AS last_owner_of
  FROM person;
