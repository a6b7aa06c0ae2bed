-- Members: the workspaces of a credential, roles, and what happens when a user joins or leaves.

-- Return the memberships that a credential of the user may use: all of them, or only the membership
-- in the token's workspace.
-- If a statement of a request looks beyond the active workspace, it finds the other workspaces with
-- this function alone. PostgreSQL inlines it.
CREATE OR REPLACE FUNCTION memberships(user_id uuid, only_workspace_id uuid) RETURNS SETOF members
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT *
      FROM members
     WHERE members.user_id = memberships.user_id
       AND workspace_id = coalesce(only_workspace_id, workspace_id)
$$;

-- Return the id of the workspace if the user's credential may use it, otherwise NULL.
CREATE OR REPLACE FUNCTION usable_workspace(
    user_id uuid, only_workspace_id uuid, id uuid
) RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT workspace_id
      FROM memberships(user_id, only_workspace_id)
     WHERE workspace_id = usable_workspace.id
$$;

-- Return the role with which a credential acts in a workspace; NULL if the user is not a member.
-- A NULL as user_id stands for an operator, who may do everything that an owner may. No request
-- passes NULL, because the gate rejects requests without a user.
CREATE OR REPLACE FUNCTION acting_role(
    user_id uuid, only_workspace_id uuid, workspace_id uuid
) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN user_id IS NULL THEN 'owner' ELSE (
               SELECT member.role
                 FROM memberships(user_id, only_workspace_id) AS member
                WHERE member.workspace_id = acting_role.workspace_id
           ) END
$$;

-- Return whether this is an owner or an admin of the workspace, or an operator (NULL).
CREATE OR REPLACE FUNCTION manages(user_id uuid, workspace_id uuid) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT coalesce(acting_role(user_id, workspace_id, workspace_id) IN ('owner', 'admin'), false)
$$;

-- Lock a member, the acting user and all owners of a workspace, before one of them gets a new role
-- or is removed. Every call locks them in the order of their ids, so owners who change or remove
-- each other at the same time do not deadlock.
-- Return the member's present role, whether the acting user may give the member the new role (NULL:
-- keep the present one), and whether the workspace would still have an owner. Return no row unless
-- both users are members. Only owners may appoint, change or remove owners and admins.
CREATE OR REPLACE FUNCTION lock_member(
    user_id uuid, only_workspace_id uuid, workspace_id uuid, member_id uuid, new_role text
)
RETURNS TABLE (role text, permitted boolean, has_owner boolean)
LANGUAGE sql
AS $$
    WITH locked AS MATERIALIZED (
        SELECT user_id, role
          FROM members
         WHERE workspace_id = lock_member.workspace_id
           AND (role = 'owner' OR user_id IN (lock_member.user_id, member_id))
           AND acting_role(
                   lock_member.user_id, only_workspace_id, lock_member.workspace_id
               ) IS NOT NULL
         ORDER BY user_id
           FOR UPDATE
    ), acting AS (
        SELECT role
          FROM locked
         WHERE user_id = lock_member.user_id
         UNION ALL
        SELECT 'owner'
         WHERE lock_member.user_id IS NULL
    )
    SELECT member.role,
           acting.role = 'owner'
           OR (acting.role = 'admin'
               AND member.role = 'member'
               AND coalesce(new_role, 'member') = 'member'),
           coalesce(new_role, member.role) = 'owner'
           OR member.role <> 'owner'
           OR EXISTS (
                  SELECT
                    FROM locked AS other
                   WHERE other.role = 'owner'
                     AND other.user_id <> member.user_id
              )
      FROM locked AS member
     CROSS JOIN acting
     WHERE member.user_id = member_id
$$;

-- Store the number of members of the changed workspaces. Workspaces are listed far more often than
-- their members change, and a list would have to count hundreds of rows.
-- The function locks the workspaces first. Its second statement begins after that, so it sees the
-- members that every earlier holder of the lock has committed.
CREATE OR REPLACE FUNCTION count_members() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM workspaces
      WHERE id IN (SELECT workspace_id FROM changed)
      ORDER BY id
        FOR NO KEY UPDATE;
    UPDATE workspaces
       SET member_count = (SELECT count(*) FROM members WHERE workspace_id = workspaces.id)
     WHERE id IN (SELECT workspace_id FROM changed);
    RETURN NULL;
END
$$;

-- When a membership ends, remember the user as a former member, unless the user or the workspace is
-- being deleted. Revoke the user's tokens for this workspace, and delete the request counts and the
-- Idempotency-Keys of the membership. Delete the user's keys in other workspaces as well, if their
-- stored response contains the id of this workspace.
CREATE OR REPLACE FUNCTION end_membership() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO former_members (workspace_id, user_id)
    SELECT workspace.id, person.id
      FROM workspaces AS workspace
     CROSS JOIN users AS person
     WHERE workspace.id = OLD.workspace_id
       AND person.id = OLD.user_id
        ON CONFLICT DO NOTHING;
    UPDATE tokens
       SET revoked_at = now()
     WHERE user_id = OLD.user_id
       AND workspace_id = OLD.workspace_id
       AND revoked_at IS NULL;
    DELETE FROM usage
     WHERE workspace_id = OLD.workspace_id
       AND subject = OLD.user_id::text;
    DELETE FROM idempotency_keys
     WHERE user_id = OLD.user_id
       AND workspace_id IN (
               SELECT OLD.workspace_id
                UNION ALL
               SELECT '00000000-0000-0000-0000-000000000000'
                UNION ALL
               SELECT workspace_id FROM members WHERE user_id = OLD.user_id
           )
       AND (workspace_id = OLD.workspace_id OR body LIKE '%' || OLD.workspace_id || '%');
    RETURN NULL;
END
$$;

-- Lock the tasks of a member who leaves in the order of their ids, as all requests do. The foreign
-- key that clears their assignee locks them in the order in which it finds them, and so could wait
-- in a circle with a batch or the deletion of a task.
-- PostgreSQL has locked the member before it runs this trigger, so no other transaction can assign
-- a task to the member any more.
CREATE OR REPLACE FUNCTION lock_assigned_tasks() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM tasks
      WHERE workspace_id = OLD.workspace_id
        AND assignee_id = OLD.user_id
      ORDER BY id
        FOR NO KEY UPDATE;
    RETURN OLD;
END
$$;

-- A member of a workspace.
CREATE OR REPLACE FUNCTION member_json(account users, role text, joined_at timestamptz) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT row_to_json(
               ROW(
                   account.id,
                   account.name,
                   account.email,
                   member_json.role,
                   iso(member_json.joined_at)
               )::member_document
           )
$$;

-- A member of a workspace, or the name of a user who has left it: then member is NULL, and so is
-- everything that belongs to a membership.
CREATE OR REPLACE FUNCTION person_json(account users, member members) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT row_to_json(
               ROW(
                   account.id,
                   account.name,
                   CASE WHEN member.user_id IS NOT NULL THEN account.email END,
                   member.role,
                   iso(member.joined_at)
               )::member_document
           )
$$;

-- Return the users whom createdBy, updatedBy or completedBy of a workspace's tasks and meetings
-- names, each once; NULL stands for the users who are not known.
CREATE OR REPLACE FUNCTION named_users(workspace_id uuid) RETURNS SETOF uuid
LANGUAGE sql STABLE
AS $$
    SELECT unnest(
               ARRAY[
                   created_by,
                   CASE WHEN updated_by_version = version THEN updated_by END,
                   completed_by
               ]
           )
      FROM tasks
     WHERE tasks.workspace_id = named_users.workspace_id
     UNION
    SELECT unnest(
               ARRAY[created_by, CASE WHEN updated_by_version = version THEN updated_by END]
           )
      FROM meetings
     WHERE meetings.workspace_id = named_users.workspace_id
$$;
