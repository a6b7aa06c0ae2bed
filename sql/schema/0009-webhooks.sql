-- Webhooks and their secrets.

CREATE TABLE webhooks (
    workspace_id uuid NOT NULL
        REFERENCES workspaces (id) ON DELETE CASCADE,
    id uuid NOT NULL DEFAULT new_id(),
    url text NOT NULL
        CONSTRAINT "url must have at most 2048 characters"
        CHECK (length(url) <= 2048),
    -- The types that the webhook subscribes to; an empty array means all types.
    events text[] NOT NULL DEFAULT '{}'
        CONSTRAINT "event must be a type of event"
        CHECK (events <@ ARRAY['task.created', 'task.updated', 'task.deleted',
                               'meeting.created', 'meeting.updated', 'meeting.completed',
                               'meeting.deleted', 'ai.suggestion.created']),
    -- No table has the secret: the secret derives from WEBHOOK_KEY, the id and this number.
    secret_number integer NOT NULL DEFAULT 1,
    -- The fingerprint of the key that the current secret derives from. NULL: of the oldest key that
    -- WEBHOOK_KEY lists; the next process that starts with WEBHOOK_KEY writes it here.
    key_fingerprint text,
    created_at timestamp_ms NOT NULL DEFAULT now_ms(),
    -- The first failure since the last success; NULL after a success.
    failing_since timestamptz,
    -- After a failure, the time of the next attempt for this webhook.
    backoff_until timestamptz,
    disabled_at timestamptz,
    disabled_reason text,
    -- When it was last disabled: events between then and its being enabled were not kept for it.
    gap_since timestamptz,
    -- Only the worker sees the webhook now: it deletes the deliveries in batches, then the webhook.
    deleted_at timestamptz
        CONSTRAINT "a deleted webhook is disabled"
        CHECK (deleted_at IS NULL OR disabled_at IS NOT NULL),
    version integer NOT NULL DEFAULT 1,
    PRIMARY KEY (workspace_id, id)
);

-- The version is that of what clients set. An attempt makes no new version: a change that names a
-- version must not fail because an event was sent meanwhile.
CREATE TRIGGER next_version
    BEFORE UPDATE ON webhooks
    FOR EACH ROW
    WHEN (
        NEW.version = OLD.version
        AND (NEW.url, NEW.events, NEW.disabled_at)
            IS DISTINCT FROM (OLD.url, OLD.events, OLD.disabled_at)
    )
    EXECUTE FUNCTION next_version();

-- A secret that a rotation has replaced. It signs too until it expires.
CREATE TABLE previous_secrets (
    workspace_id uuid NOT NULL,
    webhook_id uuid NOT NULL,
    -- The secret derives from the key, the id of the webhook and this number.
    number integer NOT NULL,
    key_fingerprint text,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, webhook_id, number),
    FOREIGN KEY (workspace_id, webhook_id) REFERENCES webhooks (workspace_id, id)
        ON DELETE CASCADE
);

-- The secrets of a webhook that sign now, newest first. The fingerprint '' stands for the oldest
-- key.
CREATE FUNCTION signing_secrets(
    webhook webhooks,
    OUT secret_numbers integer[],
    OUT key_fingerprints text[]
)
LANGUAGE sql STABLE
AS $$
    SELECT array_agg(secret.number ORDER BY secret.number DESC),
           array_agg(coalesce(secret.key_fingerprint, '') ORDER BY secret.number DESC)
      FROM (
           SELECT webhook.secret_number AS number, webhook.key_fingerprint
            UNION ALL
           SELECT previous.number, previous.key_fingerprint
             FROM previous_secrets AS previous
            WHERE previous.workspace_id = webhook.workspace_id
              AND previous.webhook_id = webhook.id
              AND previous.expires_at > now()
           ) AS secret
$$;

-- Return whether a user may see and change this webhook, which a client has not deleted.
CREATE FUNCTION manages_webhook(user_id uuid, workspace_id uuid, webhook_id uuid) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT manages(manages_webhook.user_id, manages_webhook.workspace_id)
           AND EXISTS (
                  SELECT
                    FROM webhooks AS webhook
                   WHERE webhook.workspace_id = manages_webhook.workspace_id
                     AND webhook.id = manages_webhook.webhook_id
                     AND webhook.deleted_at IS NULL
              )
$$;

-- Return whether a process that has these keys can sign for the webhook.
CREATE FUNCTION has_key(webhook webhooks, keys text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT webhook.key_fingerprint IS NULL OR webhook.key_fingerprint = ANY (keys)
$$;

-- Return the number of webhooks of a workspace. Until the transaction ends, no other one counts
-- them, so that two new webhooks cannot both be the last one that is allowed.
CREATE FUNCTION lock_and_count_webhooks(workspace_id uuid) RETURNS bigint
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM workspaces AS workspace
      WHERE workspace.id = lock_and_count_webhooks.workspace_id
        FOR NO KEY UPDATE;
    -- Each statement of a volatile function sees what was committed before it began.
    RETURN (
        SELECT count(*)
          FROM webhooks AS webhook
         WHERE webhook.workspace_id = lock_and_count_webhooks.workspace_id
           AND webhook.deleted_at IS NULL
    );
END
$$;
