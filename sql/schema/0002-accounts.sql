-- Plans, workspaces, users and members; credentials, and the counts of their requests.

-- The order of locks.
-- Two transactions deadlock if each of them holds a row that the other one waits for. Therefore
-- every statement that locks rows of several tables locks the tables in the same order: first
-- users, then members, then workspaces, and after these, tasks, tokens and everything else. Within
-- a table it locks the rows in the order of their ids.
-- Foreign keys and triggers lock rows too:
-- * A task that gets an assignee locks the assignee's row in members.
-- * When a membership ends, its foreign key clears the active workspace of the user, and so locks
--   the user.
-- * Adding or removing a member changes the number of members, and so locks the workspace.
-- For example, DELETE FROM members would lock the member first and then, through the foreign key,
-- the user. At the same time the user may choose this workspace: this request locks the user
-- first and then the member. Each of the two would wait for the lock of the other, a deadlock. So a
-- statement that adds or deletes members locks their users first, even if it changes no user.
-- tests/statements/test_lock_order.py stops each statement at each of these tables, and looks at
-- what the statement has locked.

CREATE TABLE plans (
    name text PRIMARY KEY
        CHECK (length(name) BETWEEN 1 AND 128),
    per_minute integer NOT NULL
        CHECK (per_minute > 0),
    -- NULL means unlimited.
    per_day integer
        CHECK (per_day > 0)
);

INSERT INTO plans (name, per_minute, per_day)
VALUES ('Starter', 60, 10000),
       ('Pro', 300, 100000),
       ('Team', 1000, NULL);

CREATE TABLE workspaces (
    id uuid PRIMARY KEY DEFAULT new_id(),
    name text NOT NULL
        CONSTRAINT "name must have 1 to 120 characters"
        CHECK (length(name) BETWEEN 1 AND 120),
    slug text NOT NULL
        CONSTRAINT "slug is taken by another workspace"
        UNIQUE
        CONSTRAINT "slug must have 1 to 128 of: a-z 0-9 -"
        CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,127}$'),
    plan text NOT NULL DEFAULT 'Starter'
        CONSTRAINT "plan must be the name of a plan"
        REFERENCES plans (name) ON UPDATE CASCADE,
    timezone text NOT NULL DEFAULT 'UTC'
        CONSTRAINT "timezone must have 1 to 128 characters"
        CHECK (length(timezone) BETWEEN 1 AND 128)
        -- PostgreSQL raises an error for a name that its own list of timezones lacks.
        CHECK (timestamptz '2000-01-01T00:00:00Z' AT TIME ZONE timezone IS NOT NULL),
    -- Triggers on members count them. The list of members has no pages, so their number is limited.
    member_count integer NOT NULL DEFAULT 0
        CONSTRAINT "members must be at most 10000 in a workspace"
        CHECK (member_count <= 10000),
    created_at timestamp_ms NOT NULL DEFAULT now_ms(),
    version integer NOT NULL DEFAULT 1
);

CREATE TRIGGER next_version
    BEFORE UPDATE ON workspaces
    FOR EACH ROW
    WHEN (NEW.version = OLD.version AND NEW IS DISTINCT FROM OLD)
    EXECUTE FUNCTION next_version();

CREATE TABLE users (
    id uuid PRIMARY KEY DEFAULT new_id(),
    email text NOT NULL
        CONSTRAINT "email must have 3 to 254 characters"
        CHECK (length(email) BETWEEN 3 AND 254),
    name text NOT NULL
        CONSTRAINT "name must have 1 to 120 characters"
        CHECK (length(name) BETWEEN 1 AND 120)
        -- Like PersonName in service/values/fields.py.
        CONSTRAINT "name must not contain control or bidirectional characters"
        CHECK (
            name !~ '[\u0001-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]'
        ),
    active_workspace_id uuid,
    created_at timestamp_ms NOT NULL DEFAULT now_ms(),
    -- Since this time, no credential of the user works, and no task can be newly assigned to the
    -- user.
    deactivated_at timestamp_ms
);

CREATE UNIQUE INDEX "email is taken by another user" ON users (lower(email));

-- The ids of deleted users, so that operators can explain an id in createdBy. No names are kept.
CREATE TABLE deleted_users (
    id uuid PRIMARY KEY,
    -- NULL means unknown: the user was deleted in another database.
    deleted_at timestamp_ms
);

CREATE TABLE members (
    workspace_id uuid NOT NULL
        CONSTRAINT "workspace must be the slug of a workspace"
        REFERENCES workspaces (id) ON DELETE CASCADE,
    user_id uuid NOT NULL
        CONSTRAINT "user must be the e-mail address of a user"
        REFERENCES users (id) ON DELETE CASCADE,
    role text NOT NULL DEFAULT 'member'
        CONSTRAINT "role must be one of: owner, admin, member"
        CHECK (role IN ('owner', 'admin', 'member')),
    joined_at timestamp_ms NOT NULL DEFAULT now_ms(),
    PRIMARY KEY (workspace_id, user_id)
);

CREATE INDEX members_by_user ON members (user_id, workspace_id);

-- The people who have left a workspace. A row stays even if its user comes back.
-- Whoever creates or changes an object, or is assigned to a task, is a member at that time. So
-- members and former_members together contain everybody whom an object or an event of the workspace
-- names, except deleted users.
CREATE TABLE former_members (
    workspace_id uuid NOT NULL
        REFERENCES workspaces (id) ON DELETE CASCADE,
    user_id uuid NOT NULL
        REFERENCES users (id) ON DELETE CASCADE,
    PRIMARY KEY (workspace_id, user_id)
);

CREATE INDEX former_members_by_user ON former_members (user_id);

-- Return the memberships that a credential of the user may use: all of them, or only the membership
-- in the token's workspace.
-- If a statement of a request looks beyond the active workspace, it finds the other workspaces with
-- this function alone. PostgreSQL inlines it.
CREATE FUNCTION memberships(user_id uuid, only_workspace_id uuid) RETURNS SETOF members
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT member.*
      FROM members AS member
     WHERE member.user_id = memberships.user_id
       AND member.workspace_id = coalesce(memberships.only_workspace_id, member.workspace_id)
$$;

-- Return the id of the workspace if the user's credential may use it, otherwise NULL.
CREATE FUNCTION usable_workspace(user_id uuid, only_workspace_id uuid, id uuid) RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT member.workspace_id
      FROM memberships(usable_workspace.user_id, usable_workspace.only_workspace_id) AS member
     WHERE member.workspace_id = usable_workspace.id
$$;

-- When a user leaves the active workspace, the user has none until choosing another one.
ALTER TABLE users
    ADD CONSTRAINT "the active workspace must be one that the user belongs to"
    FOREIGN KEY (active_workspace_id, id) REFERENCES members (workspace_id, user_id)
    ON DELETE SET NULL (active_workspace_id);

-- Store the number of members of the changed workspaces. Workspaces are listed far more often than
-- their members change, and a list would have to count hundreds of rows.
-- The function locks the workspaces first. Its second statement begins after that, so it sees the
-- members that every earlier holder of the lock has committed.
CREATE FUNCTION count_members() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM
       FROM workspaces AS workspace
      WHERE workspace.id IN (SELECT workspace_id FROM changed)
      ORDER BY workspace.id
        FOR NO KEY UPDATE;
    UPDATE workspaces AS workspace
       SET member_count = (
               SELECT count(*) FROM members AS member WHERE member.workspace_id = workspace.id
           )
     WHERE workspace.id IN (SELECT workspace_id FROM changed);
    RETURN NULL;
END
$$;

CREATE TRIGGER count_members_after_joining
    AFTER INSERT ON members
    REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT
    EXECUTE FUNCTION count_members();

CREATE TRIGGER count_members_after_leaving
    AFTER DELETE ON members
    REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT
    EXECUTE FUNCTION count_members();

-- When a membership ends, remember the user as a former member, unless the user or the workspace is
-- being deleted. Revoke the user's tokens for this workspace, and delete the request counts and the
-- Idempotency-Keys of the membership. Delete the user's keys in other workspaces as well, if their
-- stored response contains the id of this workspace.
CREATE FUNCTION end_membership() RETURNS trigger
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
    UPDATE tokens AS token
       SET revoked_at = now()
     WHERE token.user_id = OLD.user_id
       AND token.workspace_id = OLD.workspace_id
       AND token.revoked_at IS NULL;
    DELETE FROM usage AS counted
     WHERE counted.workspace_id = OLD.workspace_id
       AND counted.subject = OLD.user_id::text;
    DELETE FROM idempotency_keys AS stored
     USING (
           SELECT OLD.workspace_id AS workspace_id
            UNION ALL
           SELECT '00000000-0000-0000-0000-000000000000'
            UNION ALL
           SELECT member.workspace_id
             FROM members AS member
            WHERE member.user_id = OLD.user_id
           ) AS used
     WHERE stored.workspace_id = used.workspace_id
       AND stored.user_id = OLD.user_id
       AND (
               stored.workspace_id = OLD.workspace_id
               OR stored.body LIKE '%' || OLD.workspace_id || '%'
           );
    RETURN NULL;
END
$$;

CREATE TRIGGER end_membership
    AFTER DELETE ON members
    FOR EACH ROW
    EXECUTE FUNCTION end_membership();

-- A workspace in lists.
CREATE TYPE workspace_document AS (
    "id" uuid,
    "name" text,
    "slug" text,
    "plan" text,
    "memberCount" integer,
    "createdAt" text
);

CREATE FUNCTION workspace_json(workspace workspaces) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT row_to_json(
               ROW(
                   workspace.id,
                   workspace.name,
                   workspace.slug,
                   workspace.plan,
                   workspace.member_count,
                   iso(workspace.created_at)
               )::workspace_document
           )
$$;

-- The fields that only a single workspace shows, and a list of workspaces does not.
CREATE TYPE workspace_setting_document AS ("timezone" text);

-- A single workspace: the fields that a list shows, and the timezone.
CREATE FUNCTION workspace_details(workspace workspaces) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT json_join(
               workspace_json(workspace),
               row_to_json(ROW(workspace.timezone)::workspace_setting_document)
           )
$$;

-- Return the role with which a credential acts in a workspace; NULL if the user is not a member.
-- A NULL as user_id stands for an operator, who may do everything that an owner may. No request
-- passes NULL, because the gate rejects requests without a user.
CREATE FUNCTION acting_role(user_id uuid, only_workspace_id uuid, workspace_id uuid) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN acting_role.user_id IS NULL THEN 'owner' ELSE (
               SELECT member.role
                 FROM memberships(acting_role.user_id, acting_role.only_workspace_id) AS member
                WHERE member.workspace_id = acting_role.workspace_id
           ) END
$$;

-- Return whether this is an owner or an admin of the workspace, or an operator (NULL).
CREATE FUNCTION manages(user_id uuid, workspace_id uuid) RETURNS boolean
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
CREATE FUNCTION lock_member(
    user_id uuid, only_workspace_id uuid, workspace_id uuid, member_id uuid, new_role text
)
RETURNS TABLE (role text, permitted boolean, has_owner boolean)
LANGUAGE sql
AS $$
    WITH locked AS MATERIALIZED (
        SELECT member.user_id, member.role
          FROM members AS member
         WHERE member.workspace_id = lock_member.workspace_id
           AND (member.role = 'owner'
                OR member.user_id IN (lock_member.user_id, lock_member.member_id))
           AND acting_role(
                   lock_member.user_id, lock_member.only_workspace_id, lock_member.workspace_id
               ) IS NOT NULL
         ORDER BY member.user_id
           FOR UPDATE
    ), acting AS (
        SELECT locked.role
          FROM locked
         WHERE locked.user_id = lock_member.user_id
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
     WHERE member.user_id = lock_member.member_id
$$;

-- A member of a workspace.
CREATE TYPE member_document AS (
    "userId" uuid,
    "name" text,
    "email" text,
    "role" text,
    "joinedAt" text
);

CREATE FUNCTION member_json(account users, role text, joined_at timestamptz) RETURNS json
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
CREATE FUNCTION person_json(account users, member members) RETURNS json
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

-- API tokens and session cookies. The table has only the SHA-256 of each.
CREATE TABLE tokens (
    id uuid PRIMARY KEY DEFAULT new_id(),
    user_id uuid NOT NULL
        REFERENCES users (id) ON DELETE CASCADE,
    kind text NOT NULL
        CHECK (kind IN ('api', 'session')),
    name text NOT NULL DEFAULT ''
        CONSTRAINT "name must have at most 120 characters"
        CHECK (length(name) <= 120),
    scope text NOT NULL DEFAULT 'write'
        CHECK (scope IN ('read', 'write')),
    hash bytea NOT NULL UNIQUE
        CHECK (length(hash) = 32),
    created_at timestamp_ms NOT NULL DEFAULT now_ms(),
    last_used_at timestamptz,
    expires_at timestamp_ms,
    revoked_at timestamptz,
    -- An API token that was created for one workspace works in that workspace only. NULL: the token
    -- works in the user's active workspace. When the membership in the workspace ends, the token is
    -- revoked and keeps this id.
    workspace_id uuid
);

CREATE INDEX tokens_by_user ON tokens (user_id, id);

-- Return whether a credential is neither revoked nor expired.
CREATE FUNCTION is_live(token tokens) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT token.revoked_at IS NULL AND (token.expires_at IS NULL OR token.expires_at > now())
$$;

-- Return the number of live API tokens of a user, or NULL if the user's session has ended.
-- Until the transaction ends, no other transaction can create a token for the user, as with
-- lock_and_count_webhooks(), and none can end the session. So a session that is being revoked
-- cannot create a token that survives the revocation.
CREATE FUNCTION lock_and_count_tokens(user_id uuid, session_id uuid) RETURNS bigint
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM users AS person
      WHERE person.id = lock_and_count_tokens.user_id
        AND person.deactivated_at IS NULL
        FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM FROM tokens AS session
      WHERE session.id = lock_and_count_tokens.session_id
        AND session.user_id = lock_and_count_tokens.user_id
        AND session.kind = 'session'
        AND is_live(session)
        FOR SHARE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT count(*)
          FROM tokens AS token
         WHERE token.user_id = lock_and_count_tokens.user_id
           AND token.kind = 'api'
           AND is_live(token)
    );
END
$$;

-- Revoke all tokens and sessions of a user that are not revoked yet. The lock on the user waits for
-- a transaction that is creating one, so that it is revoked as well.
CREATE FUNCTION revoke_tokens(user_id uuid) RETURNS SETOF uuid
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM users AS person
      WHERE person.id = revoke_tokens.user_id
        FOR NO KEY UPDATE;
    RETURN QUERY
    UPDATE tokens AS token
       SET revoked_at = now()
     WHERE token.user_id = revoke_tokens.user_id
       AND token.revoked_at IS NULL
 RETURNING token.id;
END
$$;

-- An API token, without the token itself.
CREATE TYPE token_document AS (
    "id" uuid,
    "name" text,
    "scope" text,
    "createdAt" text,
    "expiresAt" text,
    "lastUsedAt" text,
    "workspaceId" uuid
);

CREATE FUNCTION token_json(token tokens) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT row_to_json(
               ROW(
                   token.id,
                   token.name,
                   token.scope,
                   iso(token.created_at),
                   iso(token.expires_at),
                   iso(token.last_used_at),
                   token.workspace_id
               )::token_document
           )
$$;

-- The number of requests of each subject in its current minute and day. A subject is a user in a
-- workspace, or a client address under the nil workspace. The table is not UNLOGGED, so that a
-- crash does not reset the counts.
CREATE TABLE usage (
    workspace_id uuid NOT NULL,
    subject text NOT NULL,
    minute_started_at timestamptz NOT NULL,
    minute_count integer NOT NULL,
    day_started_at timestamptz NOT NULL,
    day_count integer NOT NULL,
    -- True if the last request was within the limits.
    admitted boolean NOT NULL,
    PRIMARY KEY (workspace_id, subject)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- The counters that Prometheus reads, keyed by the name and the labels of each series. Every
-- process adds to them every ten seconds.
CREATE TABLE counters (
    series text PRIMARY KEY,
    value double precision NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

-- The running web processes and workers. Each renews its row every ten seconds, and deletes the row
-- when it ends. The name is the application_name of the process in pg_stat_activity.
-- The column speedups says whether a web process uses them. The column is null for a
-- worker, because only web processes have speedups.
CREATE TABLE processes (
    name text PRIMARY KEY,
    speedups boolean,
    started_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
