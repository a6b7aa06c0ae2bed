-- Tokens, webhooks and deliveries as the API shows them; webhooks have a version.

ALTER TABLE webhooks ADD COLUMN version integer NOT NULL DEFAULT 1;

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

-- Return whether a user is an owner or an admin of a workspace. NULL stands for an operator, who
-- may do everything; no request has a NULL here, because the gate rejects requests without a user.
CREATE FUNCTION manages(user_id uuid, workspace_id uuid) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT manages.user_id IS NULL
           OR EXISTS (
                  SELECT
                    FROM members AS member
                   WHERE member.workspace_id = manages.workspace_id
                     AND member.user_id = manages.user_id
                     AND member.role IN ('owner', 'admin')
              )
$$;

-- A webhook, with the deliveries that wait for it.
CREATE TYPE webhook_document AS (
    "id" uuid,
    "url" text,
    "events" text[],
    "state" text,
    "disabledReason" text,
    "failingSince" text,
    "waiting" bigint,
    "nextAttemptAt" text,
    "createdAt" text,
    "version" integer
);

CREATE FUNCTION show_webhook(webhook webhooks) RETURNS webhook_document
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT webhook.id,
           webhook.url,
           -- NULL means all types.
           nullif(webhook.events, '{}'),
           CASE
               WHEN webhook.disabled_at IS NOT NULL THEN 'disabled'
               WHEN webhook.failing_since IS NOT NULL THEN 'failing'
               ELSE 'enabled'
           END,
           webhook.disabled_reason,
           iso(webhook.failing_since),
           due.waiting,
           CASE
               WHEN webhook.disabled_at IS NULL AND due.waiting > 0
               THEN iso(greatest(due.due_at, webhook.backoff_until))
           END,
           iso(webhook.created_at),
           webhook.version
      FROM (
           SELECT count(*) AS waiting, min(delivery.due_at) AS due_at
             FROM deliveries AS delivery
            WHERE delivery.workspace_id = webhook.workspace_id
              AND delivery.webhook_id = webhook.id
              AND delivery.state = 'due'
           ) AS due
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
    );
END
$$;

-- A delivery with its last attempts, the oldest of these first.
CREATE TYPE delivery_document AS (
    "id" uuid,
    "eventId" text,
    "type" text,
    "timestamp" text,
    "state" text,
    "nextAttemptAt" text,
    "attempts" json
);

CREATE FUNCTION delivery_json(delivery deliveries) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT row_to_json(
               ROW(
                   delivery.id,
                   'evt_' || replace(event.id::text, '-', ''),
                   event.type,
                   iso(event.created_at),
                   CASE delivery.state WHEN 'due' THEN 'waiting' ELSE delivery.state END,
                   CASE
                       WHEN delivery.state = 'due' AND webhook.disabled_at IS NULL
                       THEN iso(greatest(delivery.due_at, webhook.backoff_until))
                   END,
                   (
                       SELECT coalesce(
                                  json_agg(
                                      json_build_object(
                                          'at', iso(attempt.at),
                                          'status', attempt.status,
                                          'milliseconds', attempt.milliseconds,
                                          -- What follows the colon is for operators: it can name
                                          -- an address inside their network.
                                          'error', split_part(attempt.error, ':', 1),
                                          'answer', attempt.answer
                                      )
                                      ORDER BY attempt.number
                                  ),
                                  '[]'
                              )
                         FROM (
                              SELECT attempt.*
                                FROM attempts AS attempt
                               WHERE attempt.workspace_id = delivery.workspace_id
                                 AND attempt.delivery_id = delivery.id
                               ORDER BY attempt.number DESC
                               LIMIT 20
                              ) AS attempt
                   )
               )::delivery_document
           )
      FROM events AS event
      JOIN webhooks AS webhook ON webhook.workspace_id = event.workspace_id
     WHERE event.workspace_id = delivery.workspace_id
       AND event.id = delivery.event_id
       AND webhook.id = delivery.webhook_id
$$;

-- An API token, without the token itself.
CREATE TYPE token_document AS (
    "id" uuid,
    "name" text,
    "scope" text,
    "createdAt" text,
    "expiresAt" text,
    "lastUsedAt" text
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
                   iso(token.last_used_at)
               )::token_document
           )
$$;

-- Return whether a credential is neither revoked nor expired.
CREATE FUNCTION is_live(token tokens) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT token.revoked_at IS NULL AND (token.expires_at IS NULL OR token.expires_at > now())
$$;

-- Return the number of live API tokens of a user; like lock_and_count_webhooks.
CREATE FUNCTION lock_and_count_tokens(user_id uuid) RETURNS bigint
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM users AS person
      WHERE person.id = lock_and_count_tokens.user_id
        FOR NO KEY UPDATE;
    RETURN (
        SELECT count(*)
          FROM tokens AS token
         WHERE token.user_id = lock_and_count_tokens.user_id
           AND token.kind = 'api'
           AND is_live(token)
    );
END
$$;
