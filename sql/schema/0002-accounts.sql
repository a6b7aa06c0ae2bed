-- Plans, workspaces, users, memberships, tokens, and the counts of requests.

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
        -- PostgreSQL has its own list of timezones and raises an error for other names.
        CHECK (timestamptz '2000-01-01T00:00:00Z' AT TIME ZONE timezone IS NOT NULL),
    created_at timestamp_ms NOT NULL DEFAULT now_ms(),
    version integer NOT NULL DEFAULT 1
);

CREATE TABLE users (
    id uuid PRIMARY KEY DEFAULT new_id(),
    email text NOT NULL
        CONSTRAINT "email must have 3 to 254 characters"
        CHECK (length(email) BETWEEN 3 AND 254),
    name text NOT NULL
        CONSTRAINT "name must have 1 to 120 characters"
        CHECK (length(name) BETWEEN 1 AND 120),
    active_workspace_id uuid,
    created_at timestamp_ms NOT NULL DEFAULT now_ms()
);

CREATE UNIQUE INDEX "email is taken by another user" ON users (lower(email));

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

-- A user who leaves a workspace has no active workspace.
ALTER TABLE users
    ADD CONSTRAINT "the active workspace must be one that the user belongs to"
    FOREIGN KEY (active_workspace_id, id) REFERENCES members (workspace_id, user_id)
    ON DELETE SET NULL (active_workspace_id);

-- API tokens and session cookies, stored as SHA-256.
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
    revoked_at timestamptz
);

CREATE INDEX tokens_by_user ON tokens (user_id, id);

-- The number of requests of each subject in the current minute and day. A subject is a user in a
-- workspace, or a client address under the nil workspace. The table is logged, so that a crash does
-- not reset the counts.
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

-- A workspace in lists.
CREATE TYPE workspace_document AS (
    "id" uuid,
    "name" text,
    "slug" text,
    "plan" text,
    "memberCount" bigint,
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
                   (SELECT count(*) FROM members WHERE members.workspace_id = workspace.id),
                   iso(workspace.created_at)
               )::workspace_document
           )
$$;

-- A single workspace.
CREATE FUNCTION workspace_details(workspace workspaces) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT json_join(workspace_json(workspace), json_build_object('timezone', workspace.timezone))
$$;
