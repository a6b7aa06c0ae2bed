-- Idempotency keys with their responses.

-- A key is stored while its first request runs and for a day after it. A second request with the
-- key waits at the primary key until the first one has committed, and then reads its response.
CREATE TABLE idempotency_keys (
    -- The nil workspace for resources of the user, and if the caller has no active one; hence no
    -- foreign key.
    workspace_id uuid NOT NULL,
    user_id uuid NOT NULL,
    key text NOT NULL
        CHECK (length(key) BETWEEN 1 AND 255),
    -- SHA-256 of method, path and body.
    fingerprint bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    status integer,
    headers jsonb,
    body text,
    PRIMARY KEY (workspace_id, user_id, key)
);

CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);
