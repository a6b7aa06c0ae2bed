-- Events, their deliveries to webhooks, and the outcome of each attempt.

-- The order of events. A transaction that changes a resource takes the position while it holds the
-- row, so that the events of one resource have the order of its versions. Position 1 is no event's.
CREATE SEQUENCE event_positions;
SELECT nextval('event_positions');

-- The outbox: the exact text of each message, written in the transaction of the change.
CREATE TABLE events (
    workspace_id uuid NOT NULL
        REFERENCES workspaces (id) ON DELETE CASCADE,
    id uuid NOT NULL,
    type text NOT NULL,
    body text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    position bigint NOT NULL DEFAULT nextval('event_positions'),
    PRIMARY KEY (workspace_id, id)
);

CREATE INDEX events_by_age ON events (created_at);
CREATE INDEX events_by_position ON events (workspace_id, position);

-- One event for one webhook.
CREATE TABLE deliveries (
    workspace_id uuid NOT NULL,
    id uuid NOT NULL DEFAULT new_id(),
    webhook_id uuid NOT NULL,
    event_id uuid NOT NULL,
    state text NOT NULL DEFAULT 'due'
        CHECK (state IN ('due', 'delivered', 'failed')),
    -- While due: the time of the next attempt. A claim sets this time to the end of its lease.
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
 WHERE state = 'due';
CREATE INDEX deliveries_by_event ON deliveries (workspace_id, event_id);
CREATE INDEX deliveries_by_state ON deliveries (workspace_id, webhook_id, state, id);

-- One attempt: the status and the first bytes of the receiver's response, or the error.
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

-- Write an event, and a delivery for each webhook that subscribes to it, in the transaction of the
-- change. Without a webhook that subscribes, write the event only if the workspace has a feed.
-- Return the event's id, or NULL without a delivery. The deliveries are due at once: either the
-- request or a worker claims and attempts them.
CREATE FUNCTION announce(workspace_id uuid, type text, data json) RETURNS uuid
LANGUAGE plpgsql
AS $$
DECLARE
    new_event_id uuid;
    -- NULL if the workspace has never had a webhook or a reader: then this one query is all.
    has_feed boolean := (
        SELECT feed.read_at IS NOT NULL
          FROM feeds AS feed
         WHERE feed.workspace_id = announce.workspace_id
    );
BEGIN
    IF has_feed IS NULL THEN
        RETURN NULL;
    END IF;
    IF has_feed THEN
        PERFORM hold_position(workspace_id);
    ELSIF NOT EXISTS (
        SELECT FROM webhooks AS webhook
         WHERE webhook.workspace_id = announce.workspace_id
           AND webhook.disabled_at IS NULL
           AND (webhook.events = '{}' OR announce.type = ANY (webhook.events))
    ) THEN
        RETURN NULL;
    END IF;
    new_event_id := new_id();
    INSERT INTO events (workspace_id, id, type, body)
    VALUES (
               announce.workspace_id,
               new_event_id,
               announce.type,
               json_build_object(
                   'id', 'evt_' || replace(new_event_id::text, '-', ''),
                   'type', announce.type,
                   'timestamp', iso(now()),
                   'workspaceId', announce.workspace_id,
                   'data', announce.data
               )
           );
    INSERT INTO deliveries (workspace_id, webhook_id, event_id, due_at)
    SELECT webhook.workspace_id, webhook.id, new_event_id, now()
      FROM webhooks AS webhook
     WHERE webhook.workspace_id = announce.workspace_id
       AND webhook.disabled_at IS NULL
       AND (webhook.events = '{}' OR announce.type = ANY (webhook.events))
       -- If another transaction is deleting the webhook, the lock waits and then skips the webhook.
       FOR KEY SHARE;
    IF FOUND THEN
        RETURN new_event_id;
    END IF;
    IF NOT has_feed THEN
        DELETE FROM events AS event
         WHERE event.workspace_id = announce.workspace_id
           AND event.id = new_event_id;
    END IF;
    RETURN NULL;
END
$$;

-- Make the deliveries of a recovered webhook due, each no sooner than a pause after its last
-- attempt; return their number. Their schedule does not change: its times count from the event.
-- Claimed deliveries do not change: their attempts have no outcome yet.
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
           AND delivery.state = 'due'
           AND delivery.due_at > greatest(now(), attempt.at + catch_up.pause)
           -- SKIP LOCKED avoids a deadlock: each transaction that records an outcome holds its
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

-- Claim a delivery that the caller has locked: no other process attempts it for ``lease`` seconds.
-- Return everything that an attempt needs.
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

-- A webhook, with the deliveries that wait for it.
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
              AND delivery.state = 'due'
           ) AS due
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
