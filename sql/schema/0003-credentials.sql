-- API tokens and sessions, and the counts of their requests.

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
    revoked_at timestamptz,
    -- The workspace that an API token is made for, which is then its active one. NULL: the active
    -- workspace of the user. The end of the membership revokes the token, which keeps the id.
    workspace_id uuid
);

CREATE INDEX tokens_by_user ON tokens (user_id, id);

-- Return whether a credential is neither revoked nor expired.
CREATE FUNCTION is_live(token tokens) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT token.revoked_at IS NULL AND (token.expires_at IS NULL OR token.expires_at > now())
$$;

-- Return the number of live API tokens of a user, like lock_and_count_webhooks; NULL if the session
-- has ended. Until the transaction ends, nothing else ends it, so that no token outlives its end
-- that was made by the session afterwards.
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

-- Revoke all tokens and sessions of a user that are not revoked yet, those too that are being made.
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
