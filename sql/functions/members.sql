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
-- A NULL as user_id stands for an operator, as in present_role().
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

-- Return the role that a credential has in a workspace now; NULL if it has ended, if its user is no
-- member or deactivated, or if it is made for another workspace. An operator has no credential, and
-- may do everything that an owner may: token_id is NULL. No request passes NULL, because the gate
-- rejects requests without a credential.
-- A write calls this after it has waited, because what the gate has seen may have ended meanwhile.
CREATE OR REPLACE FUNCTION present_role(token_id uuid, workspace_id uuid) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN token_id IS NULL THEN 'owner' ELSE (
               SELECT member.role
                 FROM tokens AS token
                 JOIN users AS person ON person.id = token.user_id
                 JOIN members AS member
                   ON member.user_id = person.id
                  AND member.workspace_id = present_role.workspace_id
                WHERE token.id = token_id
                  AND is_live(token)
                  AND person.deactivated_at IS NULL
                  AND coalesce(token.workspace_id = member.workspace_id, true)
           ) END
$$;

-- Add a user to a workspace. Admins may add plain members; owners may add members of any role. If
-- nobody has the e-mail address and the name is not NULL, create the user.
-- For a new user, the workspace becomes the active one. A user who already existed keeps the active
-- workspace. An operator may even add a deactivated user, and makes the workspace the active one of
-- a user who has none.
-- Return whether the role of the caller permits this (NULL: the workspace is not one of the
-- caller's), whether the user may join, the user's id, and the member. Without a user, the id is
-- NULL; without a new member, the member is.
CREATE OR REPLACE FUNCTION add_member(
    workspace_id uuid,
    email text,
    name text,
    new_role text,
    token_id uuid,
    OUT permitted boolean,
    OUT can_join boolean,
    OUT id uuid,
    OUT body json
)
LANGUAGE plpgsql
AS $$
DECLARE
    acting text := present_role(token_id, workspace_id);
    account users;
    member members;
    is_new boolean := false;
BEGIN
    -- Only a member may lock the workspace.
    IF acting IS NULL THEN
        RETURN;
    END IF;
    PERFORM lock_workspace(workspace_id, token_id);
    acting := present_role(token_id, workspace_id);
    permitted := acting = 'owner' OR acting = 'admin' AND new_role = 'member';
    IF permitted AND name IS NOT NULL THEN
        -- If another transaction is creating the same user, this waits for it.
        INSERT INTO users (email, name)
        VALUES (add_member.email, add_member.name)
            ON CONFLICT DO NOTHING;
        is_new := FOUND;
    END IF;
    SELECT *
      INTO account
      FROM users
     WHERE lower(users.email) = lower(add_member.email)
       FOR NO KEY UPDATE;
    id := account.id;
    can_join := account.deactivated_at IS NULL OR token_id IS NULL;
    IF permitted AND can_join AND account.id IS NOT NULL THEN
        INSERT INTO members (workspace_id, user_id, role)
        VALUES (add_member.workspace_id, account.id, new_role)
            ON CONFLICT ON CONSTRAINT members_pkey DO NOTHING
     RETURNING *
          INTO member;
        IF FOUND THEN
            body := member_json(account, member.role, member.joined_at);
            UPDATE users
               SET active_workspace_id = add_member.workspace_id
             WHERE users.id = account.id
               AND active_workspace_id IS NULL
               AND (is_new OR token_id IS NULL);
        END IF;
    END IF;
END
$$;

-- Lock a workspace before a member gets a new role or is removed.
-- Return the member's present role, whether the caller may give the member the new role (NULL: keep
-- the present one), and whether the workspace would still have an owner; NULLs unless both are
-- members. Only owners may appoint, change or remove owners and admins.
CREATE OR REPLACE FUNCTION check_member(
    workspace_id uuid,
    member_id uuid,
    new_role text,
    token_id uuid,
    OUT role text,
    OUT permitted boolean,
    OUT has_owner boolean
)
LANGUAGE plpgsql
AS $$
DECLARE
    acting text := present_role(token_id, workspace_id);
BEGIN
    -- Only a member may lock the workspace.
    IF acting IS NULL THEN
        RETURN;
    END IF;
    PERFORM lock_workspace(workspace_id, token_id);
    acting := present_role(token_id, workspace_id);
    SELECT member.role,
           acting = 'owner'
           OR (acting = 'admin'
               AND member.role = 'member'
               AND coalesce(new_role, 'member') = 'member'),
           coalesce(new_role, member.role) = 'owner'
           OR member.role <> 'owner'
           OR EXISTS (
                  SELECT
                    FROM members AS other
                   WHERE other.workspace_id = member.workspace_id
                     AND other.role = 'owner'
                     AND other.user_id <> member.user_id
              )
      INTO role, permitted, has_owner
      FROM members AS member
     WHERE member.workspace_id = check_member.workspace_id
       AND member.user_id = member_id
       AND acting IS NOT NULL;
END
$$;

-- Give a member this role (NULL: keep the present one) if that is permitted and the workspace still
-- has an owner, and return the member; NULLs unless both are members.
CREATE OR REPLACE FUNCTION change_role(
    workspace_id uuid,
    member_id uuid,
    new_role text,
    token_id uuid,
    OUT permitted boolean,
    OUT has_owner boolean,
    OUT body json
)
LANGUAGE plpgsql
AS $$
DECLARE
    old_role text;
BEGIN
    SELECT *
      INTO old_role, permitted, has_owner
      FROM check_member(workspace_id, member_id, new_role, token_id);
    IF permitted AND has_owner AND old_role <> new_role THEN
        UPDATE members
           SET role = new_role
         WHERE members.workspace_id = change_role.workspace_id
           AND user_id = member_id;
    END IF;
    body := (
        SELECT member_json(account, member.role, joined_at)
          FROM members AS member
          JOIN users AS account ON account.id = member.user_id
         WHERE member.workspace_id = change_role.workspace_id
           AND user_id = member_id
    );
END
$$;

-- Remove a member if that is permitted and the workspace still has an owner. Every member may
-- leave; removing another member needs the same rights as demoting that member to a plain member.
-- Return NULLs unless both are members.
CREATE OR REPLACE FUNCTION remove_member(
    workspace_id uuid,
    member_id uuid,
    user_id uuid,
    token_id uuid,
    OUT permitted boolean,
    OUT has_owner boolean
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT checked.permitted OR user_id IS NOT DISTINCT FROM member_id, checked.has_owner
      INTO permitted, has_owner
      FROM check_member(workspace_id, member_id, 'member', token_id) AS checked
     WHERE checked.permitted IS NOT NULL;
    IF permitted AND has_owner THEN
        -- The removal clears the active workspace. The user comes before the member: the user may
        -- choose this workspace at the same time.
        PERFORM FROM users
          WHERE id = member_id
            FOR NO KEY UPDATE;
        -- The actor of the events that announce the member's tasks as unassigned.
        PERFORM set_config('service.actor_id', user_id::text, true);
        DELETE FROM members
         WHERE members.workspace_id = remove_member.workspace_id
           AND members.user_id = member_id;
    END IF;
END
$$;

-- Wait for the writes that run in the workspaces of a user who has just been deactivated, so that
-- afterwards no task is newly assigned to the user. The deactivation gets the time after them:
-- load rejects a task that is younger than the deactivation of its assignee.
CREATE OR REPLACE FUNCTION finish_deactivation(user_id uuid, since timestamptz) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM lock_workspaces_of(user_id);
    UPDATE users
       SET deactivated_at = date_trunc(
               'milliseconds', now() + (clock_timestamp() - transaction_timestamp())
           )
     WHERE id = user_id
       AND deactivated_at = since;
END
$$;

-- Delete a user, unless a workspace would lose its last owner; return the slugs of such workspaces.
-- The id is kept, so that an operator can tell a user who was deleted from an id that never
-- existed. Return NULLs if there is no such user.
CREATE OR REPLACE FUNCTION delete_user(email text, OUT id uuid, OUT last_owner_of text[])
LANGUAGE plpgsql
AS $$
DECLARE
    locked uuid[];
BEGIN
    id := (SELECT users.id FROM users WHERE lower(users.email) = lower(delete_user.email));
    locked := lock_workspaces_of(id);
    -- From now on the user cannot join a workspace.
    PERFORM FROM users
      WHERE users.id = delete_user.id
        FOR UPDATE;
    IF EXISTS (
        SELECT FROM members WHERE user_id = delete_user.id AND workspace_id <> ALL (locked)
    ) THEN
        RAISE serialization_failure
              USING MESSAGE = 'the user has just joined another workspace: try again';
    END IF;
    last_owner_of := ARRAY(
        SELECT slug
          FROM members AS member
          JOIN workspaces AS workspace ON workspace.id = member.workspace_id
         WHERE member.user_id = delete_user.id
           AND member.role = 'owner'
           AND NOT EXISTS (
                   SELECT
                     FROM members AS other
                    WHERE other.workspace_id = member.workspace_id
                      AND other.role = 'owner'
                      AND other.user_id <> member.user_id
               )
         ORDER BY slug
    );
    IF last_owner_of = '{}' AND id IS NOT NULL THEN
        DELETE FROM users
         WHERE users.id = delete_user.id;
        -- These are the keys under the nil workspace. The trigger of members deletes the keys in
        -- workspaces.
        DELETE FROM idempotency_keys
         WHERE workspace_id = '00000000-0000-0000-0000-000000000000'
           AND user_id = delete_user.id
           -- A request that renews an expired key holds its row while it waits for the user.
           AND created_at >= clock_timestamp() - interval '24 hours';
        INSERT INTO deleted_users (id, deleted_at)
        VALUES (delete_user.id, now_ms())
            ON CONFLICT ON CONSTRAINT deleted_users_pkey DO UPDATE
           SET deleted_at = excluded.deleted_at;
    END IF;
END
$$;

-- Store the number of members of the changed workspaces. Workspaces are listed far more often than
-- their members change, and a list would have to count hundreds of rows.
-- The command load does not lock the workspace, so the function locks the row. Its second statement
-- begins after that, and sees the members that every earlier holder of the row has committed.
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
       AND (workspace_id = OLD.workspace_id
            OR OLD.workspace_id = ANY (shows)
            -- A release before 1.3.0 has stored this response.
            OR shows IS NULL AND body LIKE '%' || OLD.workspace_id || '%')
       -- A request that renews an expired key holds its row while it waits for the workspace. A key
       -- that expires while this transaction waits may be renewed too.
       AND created_at >= clock_timestamp() - interval '24 hours';
    RETURN NULL;
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
