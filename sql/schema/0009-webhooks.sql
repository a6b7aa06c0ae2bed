-- Webhooks with their secrets, their deliveries, and the outcome of each attempt.

CREATE TABLE webhooks (
    workspace_id uuid NOT NULL
        REFERENCES workspaces (id) ON DELETE CASCADE,
    id uuid NOT NULL DEFAULT new_id(),
    url text NOT NULL
        CONSTRAINT "url must have at most 2048 characters"
        CHECK (length(url) <= 2048),
    -- The types of events that the webhook subscribes to. An empty array means all types.
    events text[] NOT NULL DEFAULT '{}'
        CONSTRAINT "event must be a type of event"
        CHECK (events <@ ARRAY['task.created', 'task.updated', 'task.deleted',
                               'meeting.created', 'meeting.updated', 'meeting.completed',
                               'meeting.deleted', 'ai.suggestion.created']),
    -- The secret is not stored. It is derived from WEBHOOK_KEY, the webhook's id and this number.
    secret_number integer NOT NULL DEFAULT 1,
    -- The fingerprint of the key in WEBHOOK_KEY from which the current secret is derived.
    key_fingerprint text NOT NULL,
    created_at timestamp_ms NOT NULL DEFAULT now_ms(),
    -- The time of the first failed attempt since the last success; NULL after a success.
    failing_since timestamptz,
    -- After a failure, no delivery to this webhook is attempted before this time.
    backoff_until timestamptz,
    disabled_at timestamptz,
    disabled_reason text,
    -- When the webhook was last disabled. Events from then until it was enabled again are not
    -- delivered.
    gap_since timestamptz,
    -- Set when a client deletes the webhook. From then on, only the worker sees it: it deletes the
    -- deliveries in batches, and then the webhook.
    deleted_at timestamptz
        CONSTRAINT "a deleted webhook is disabled"
        CHECK (deleted_at IS NULL OR disabled_at IS NOT NULL),
    version integer NOT NULL DEFAULT 1,
    PRIMARY KEY (workspace_id, id)
);

-- The version counts the changes that clients make. An attempt does not increase the version, so
-- that a change with If-Match does not fail because an event was sent meanwhile.
CREATE TRIGGER next_version
    BEFORE UPDATE ON webhooks
    FOR EACH ROW
    WHEN (
        NEW.version = OLD.version
        AND (NEW.url, NEW.events, NEW.disabled_at)
            IS DISTINCT FROM (OLD.url, OLD.events, OLD.disabled_at)
    )
    EXECUTE FUNCTION next_version();

-- Give the workspace of a new webhook a row in feeds. The row stays until the workspace is deleted.
CREATE FUNCTION add_feed() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO feeds (workspace_id)
    VALUES (NEW.workspace_id)
        ON CONFLICT (workspace_id) DO NOTHING;
    RETURN NULL;
END
$$;

CREATE TRIGGER add_feed
    AFTER INSERT ON webhooks
    FOR EACH ROW
    EXECUTE FUNCTION add_feed();

-- A secret that a rotation has replaced. Until it expires, events are signed with it as well.
CREATE TABLE previous_secrets (
    workspace_id uuid NOT NULL,
    webhook_id uuid NOT NULL,
    -- The secret is derived from the key, the webhook's id and this number.
    number integer NOT NULL,
    key_fingerprint text NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, webhook_id, number),
    FOREIGN KEY (workspace_id, webhook_id) REFERENCES webhooks (workspace_id, id)
        ON DELETE CASCADE
);

-- Return the secrets with which events for a webhook are signed now, newest first.
CREATE FUNCTION signing_secrets(
    webhook webhooks,
    OUT secret_numbers integer[],
    OUT key_fingerprints text[]
)
LANGUAGE sql STABLE
AS $$
    SELECT array_agg(secret.number ORDER BY secret.number DESC),
           array_agg(secret.key_fingerprint ORDER BY secret.number DESC)
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

-- Return whether a user may see and change this webhook. A webhook that a client has deleted counts
-- as missing.
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

-- Return the number of webhooks of a workspace. Until the transaction ends, other transactions wait
-- here, so that two new webhooks cannot both be the last one that the limit allows.
CREATE FUNCTION lock_and_count_webhooks(workspace_id uuid) RETURNS bigint
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM workspaces AS workspace
      WHERE workspace.id = lock_and_count_webhooks.workspace_id
        FOR NO KEY UPDATE;
    -- In a volatile function each statement has its own snapshot, so this one sees what other
    -- transactions have committed while the lock waited for them.
    RETURN (
        SELECT count(*)
          FROM webhooks AS webhook
         WHERE webhook.workspace_id = lock_and_count_webhooks.workspace_id
           AND webhook.deleted_at IS NULL
    );
END
$$;

-- The delivery of one event to one webhook.
CREATE TABLE deliveries (
    workspace_id uuid NOT NULL,
    id uuid NOT NULL DEFAULT new_id(),
    webhook_id uuid NOT NULL,
    event_id uuid NOT NULL,
    state text NOT NULL DEFAULT 'waiting'
        CHECK (state IN ('waiting', 'delivered', 'failed')),
    -- While the state is waiting: the time of the next attempt. A claim sets it to the end of the
    -- lease, see claim_delivery().
    due_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    finished_at timestamptz,
    PRIMARY KEY (workspace_id, id),
    FOREIGN KEY (workspace_id, webhook_id) REFERENCES webhooks (workspace_id, id)
        ON DELETE CASCADE,
    FOREIGN KEY (workspace_id, event_id) REFERENCES events (workspace_id, id)
        ON DELETE CASCADE
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);

CREATE INDEX deliveries_due ON deliveries (workspace_id, webhook_id, due_at)
 WHERE state = 'waiting';
CREATE INDEX deliveries_by_event ON deliveries (workspace_id, event_id);
CREATE INDEX deliveries_by_state ON deliveries (workspace_id, webhook_id, state, id);

-- One attempt of a delivery: the status and the first bytes of the receiver's response, or the
-- error.
CREATE TABLE attempts (
    workspace_id uuid NOT NULL,
    delivery_id uuid NOT NULL,
    number integer NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    status integer,
    milliseconds integer NOT NULL,
    error text,
    answer text,
    PRIMARY KEY (workspace_id, delivery_id, number),
    FOREIGN KEY (workspace_id, delivery_id) REFERENCES deliveries (workspace_id, id)
        ON DELETE CASCADE
);

-- Make the waiting deliveries of a recovered webhook due, each of them no sooner than a pause after
-- its last attempt, and return their number. If one of them fails again, its schedule goes on as
-- before, because the schedule counts from the time of the event. A delivery that is claimed stays
-- as it is: its attempt has no outcome yet.
CREATE FUNCTION catch_up(workspace_id uuid, webhook_id uuid, pause interval) RETURNS bigint
LANGUAGE sql
AS $$
    WITH waiting AS MATERIALIZED (
        SELECT delivery.id, greatest(now(), attempt.at + catch_up.pause) AS due_at
          FROM deliveries AS delivery
          JOIN attempts AS attempt
            ON attempt.workspace_id = delivery.workspace_id
           AND attempt.delivery_id = delivery.id
           AND attempt.number = delivery.attempts
         WHERE delivery.workspace_id = catch_up.workspace_id
           AND delivery.webhook_id = catch_up.webhook_id
           AND delivery.state = 'waiting'
           AND delivery.due_at > greatest(now(), attempt.at + catch_up.pause)
           -- SKIP LOCKED avoids a deadlock: a transaction that records an outcome holds its
           -- delivery and waits for the webhook.
           FOR UPDATE OF delivery SKIP LOCKED
    ), caught_up AS (
        UPDATE deliveries AS delivery
           SET due_at = waiting.due_at
          FROM waiting
         WHERE delivery.workspace_id = catch_up.workspace_id
           AND delivery.id = waiting.id
     RETURNING delivery.id
    )
    SELECT count(*) FROM caught_up
$$;

-- Claim a delivery that the caller has locked, and return everything that an attempt needs.
-- The claim is a lease. It counts the attempt and moves due_at into the future, by the seconds of
-- the lease. Then the caller commits, so that no lock and no connection is held while the receiver
-- answers. Until the lease expires the delivery is not due, so no other process attempts it.
-- webhooks/record replaces the end of the lease by the outcome.
-- If the process is killed before that, the delivery becomes due when the lease expires, and
-- another process attempts it with the next number. So the receiver may get the event twice, but
-- the event is not lost.
CREATE FUNCTION claim_delivery(in_workspace_id uuid, delivery_id uuid, lease float8)
RETURNS TABLE (
    workspace_id uuid,
    id uuid,
    number integer,
    webhook_id uuid,
    url text,
    secret_numbers integer[],
    key_fingerprints text[],
    message_id text,
    body text,
    age float8
)
LANGUAGE sql
ROWS 1
AS $$
    WITH claimed AS (
        UPDATE deliveries AS delivery
           SET due_at = now() + claim_delivery.lease * interval '1 second',
               attempts = delivery.attempts + 1
         WHERE delivery.workspace_id = claim_delivery.in_workspace_id
           AND delivery.id = claim_delivery.delivery_id
     RETURNING delivery.workspace_id,
               delivery.id,
               delivery.attempts,
               delivery.webhook_id,
               delivery.event_id
    )
    SELECT claimed.workspace_id,
           claimed.id,
           claimed.attempts,
           webhook.id,
           webhook.url,
           secret.secret_numbers,
           secret.key_fingerprints,
           'evt_' || replace(event.id::text, '-', ''),
           event.body,
           extract(epoch FROM now() - event.created_at)::float8
      FROM claimed
      JOIN events AS event
        ON event.workspace_id = claimed.workspace_id AND event.id = claimed.event_id
      JOIN webhooks AS webhook
        ON webhook.workspace_id = claimed.workspace_id AND webhook.id = claimed.webhook_id
     CROSS JOIN LATERAL signing_secrets(webhook) AS secret
$$;

-- A webhook, as the API shows it, with the number of deliveries that wait for it.
CREATE TYPE webhook_document AS (
    "id" uuid,
    "url" text,
    "events" text[],
    "state" text,
    "disabledReason" text,
    "failingSince" text,
    "gapSince" text,
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
           iso(webhook.gap_since),
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
              AND delivery.state = 'waiting'
           ) AS due
$$;

CREATE TYPE attempt_document AS (
    "at" text,
    "status" integer,
    "milliseconds" integer,
    "error" text,
    "answer" text
);

-- A delivery with its last 20 attempts, oldest first.
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
                   delivery.state,
                   CASE
                       WHEN delivery.state = 'waiting' AND webhook.disabled_at IS NULL
                       THEN iso(greatest(delivery.due_at, webhook.backoff_until))
                   END,
                   (
                       SELECT json_list(
                                  array_agg(
                                      row_to_json(
                                          ROW(
                                              iso(attempt.at),
                                              attempt.status,
                                              attempt.milliseconds,
                                              -- The text after the colon is for operators only: it
                                              -- can name an address inside their network.
                                              split_part(attempt.error, ':', 1),
                                              attempt.answer
                                          )::attempt_document
                                      )
                                      ORDER BY attempt.number
                                  )
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
