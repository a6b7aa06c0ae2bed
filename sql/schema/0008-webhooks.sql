-- Webhooks, the events to send to them, and the outcome of each attempt.

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
                               'meeting.created', 'meeting.completed', 'ai.suggestion.created']),
    -- No table has the secret: the secret derives from WEBHOOK_KEY, the id and this number.
    secret_number integer NOT NULL DEFAULT 1,
    -- The time until which the previous secret signs too.
    rotated_until timestamptz,
    created_at timestamp_ms NOT NULL DEFAULT now_ms(),
    -- The first failure since the last success; NULL after a success.
    failing_since timestamptz,
    -- After a failure, the time of the next attempt for this webhook.
    backoff_until timestamptz,
    disabled_at timestamptz,
    disabled_reason text,
    PRIMARY KEY (workspace_id, id)
);

-- The outbox: the exact text of each message, written in the transaction of the change.
CREATE TABLE events (
    workspace_id uuid NOT NULL
        REFERENCES workspaces (id) ON DELETE CASCADE,
    id uuid NOT NULL,
    type text NOT NULL,
    body text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, id)
);

CREATE INDEX events_by_age ON events (created_at);

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
CREATE INDEX deliveries_by_webhook ON deliveries (workspace_id, webhook_id, id);

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
-- change. Return the event's id, or NULL if no webhook subscribes. The deliveries are due at once:
-- either the request or a worker claims and attempts them.
CREATE FUNCTION announce(workspace_id uuid, type text, data json) RETURNS uuid
LANGUAGE plpgsql
AS $$
DECLARE
    new_event_id uuid;
BEGIN
    IF NOT EXISTS (
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
    IF NOT FOUND THEN
        DELETE FROM events AS event
         WHERE event.workspace_id = announce.workspace_id
           AND event.id = new_event_id;
        RETURN NULL;
    END IF;
    RETURN new_event_id;
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
