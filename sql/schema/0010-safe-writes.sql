-- Idempotency-Keys with their responses.

-- A client that gets no response may repeat a request with the same Idempotency-Key, and the
-- service does not do the work twice. The transaction that does the work also inserts the key and
-- stores the response, so either all of this is committed or nothing.
-- A second request with the same key, while the first one is running, waits at the primary key. If
-- the first transaction commits, the second request gets the stored response. If the first one
-- fails and rolls back, the second request does the work. A key expires after a day.
CREATE TABLE idempotency_keys (
    -- The nil workspace, for resources of the user and if the caller has no active workspace. So
    -- there is no foreign key.
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
