-- Webhooks: who wants to hear of what, what there is to tell, and what came of telling it.

CREATE TABLE webhooks (
    workspace_id uuid NOT NULL
        REFERENCES workspaces (id) ON DELETE CASCADE,
    id uuid NOT NULL DEFAULT new_id(),
    url text NOT NULL
        CONSTRAINT "url must have at most 2048 characters"
        CHECK (length(url) <= 2048),
    -- Empty is every type.
    events text[] NOT NULL DEFAULT '{}'
        CONSTRAINT "event must be a type of event"
        CHECK (events <@ ARRAY['task.created', 'task.updated', 'task.deleted',
                               'meeting.created', 'meeting.completed', 'ai.suggestion.created']),
    -- The secret itself is nowhere: it is derived from WEBHOOK_KEY, the id and this number.
    secret_number integer NOT NULL DEFAULT 1,
    -- Until then the secret before this one signs too.
    rotated_until timestamptz,
    created_at timestamp_ms NOT NULL DEFAULT now_ms(),
    -- When the attempts began to fail without a success since; NULL while all is well.
    failing_since timestamptz,
    -- After a failure nothing is attempted until then, so that a dead receiver holds up no others.
    backoff_until timestamptz,
    disabled_at timestamptz,
    disabled_reason text,
    PRIMARY KEY (workspace_id, id)
);

-- The outbox: the exact bytes of each message, written with the change that it tells of.
CREATE TABLE events (
    workspace_id uuid NOT NULL
        REFERENCES workspaces (id) ON DELETE CASCADE,
    id uuid NOT NULL,
    type text NOT NULL,
    body text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, id)
);

-- One event on its way to one webhook.
CREATE TABLE deliveries (
    workspace_id uuid NOT NULL,
    id uuid NOT NULL DEFAULT new_id(),
    webhook_id uuid NOT NULL,
    event_id uuid NOT NULL,
    -- Paused while its webhook is disabled.
    state text NOT NULL DEFAULT 'due'
        CHECK (state IN ('due', 'paused', 'delivered', 'failed')),
    -- While due: when it may be attempted next. An attempt under way moves it behind its lease.
    due_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    finished_at timestamptz,
    PRIMARY KEY (workspace_id, id),
    FOREIGN KEY (workspace_id, webhook_id) REFERENCES webhooks (workspace_id, id) ON DELETE CASCADE,
    FOREIGN KEY (workspace_id, event_id) REFERENCES events (workspace_id, id) ON DELETE CASCADE
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);

CREATE INDEX deliveries_due ON deliveries (due_at)
 WHERE state = 'due';
CREATE INDEX deliveries_finished ON deliveries (finished_at)
 WHERE state IN ('delivered', 'failed');
CREATE INDEX deliveries_by_event ON deliveries (workspace_id, event_id);
CREATE INDEX deliveries_by_webhook ON deliveries (workspace_id, webhook_id, id);

-- One try: what came back, or what kept it from coming.
CREATE TABLE attempts (
    workspace_id uuid NOT NULL,
    delivery_id uuid NOT NULL,
    number integer NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    status integer,
    milliseconds integer NOT NULL,
    error text,
    -- The first bytes of the answer, as text.
    answer text,
    PRIMARY KEY (workspace_id, delivery_id, number),
    FOREIGN KEY (workspace_id, delivery_id) REFERENCES deliveries (workspace_id, id) ON DELETE CASCADE
);

-- Write an event and a delivery for each webhook that wants it, in the transaction of the change.
-- Returns the event's id; NULL, for next to nothing, where nobody listens. The deliveries are due
-- from the start: whoever claims one first attempts it, the request that made it or a worker.
CREATE FUNCTION announce(workspace_id uuid, type text, data json) RETURNS uuid
LANGUAGE plpgsql
AS $$
DECLARE
    event_id uuid;
BEGIN
    IF NOT EXISTS (
        SELECT FROM webhooks AS webhook
         WHERE webhook.workspace_id = announce.workspace_id
           AND webhook.disabled_at IS NULL
           AND (webhook.events = '{}' OR announce.type = ANY (webhook.events))
    ) THEN
        RETURN NULL;
    END IF;
    event_id := new_id();
    INSERT INTO events (workspace_id, id, type, body)
    VALUES (
               announce.workspace_id,
               event_id,
               announce.type,
               json_build_object(
                   'id', 'evt_' || replace(event_id::text, '-', ''),
                   'type', announce.type,
                   'timestamp', iso(now()),
                   'workspaceId', announce.workspace_id,
                   'data', announce.data
               )
           );
    INSERT INTO deliveries (workspace_id, webhook_id, event_id, due_at)
    SELECT webhook.workspace_id, webhook.id, event_id, now()
      FROM webhooks AS webhook
     WHERE webhook.workspace_id = announce.workspace_id
       AND webhook.disabled_at IS NULL
       AND (webhook.events = '{}' OR announce.type = ANY (webhook.events));
    RETURN event_id;
END
$$;

-- What a disabled webhook has not received waits, and is due again once it is enabled.
CREATE FUNCTION pause_or_resume() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE deliveries AS delivery
       SET state = CASE WHEN NEW.disabled_at IS NULL THEN 'due' ELSE 'paused' END,
           due_at = now()
     WHERE delivery.workspace_id = NEW.workspace_id
       AND delivery.webhook_id = NEW.id
       AND delivery.state = CASE WHEN NEW.disabled_at IS NULL THEN 'paused' ELSE 'due' END;
    RETURN NULL;
END
$$;

CREATE TRIGGER pause_or_resume
    AFTER UPDATE OF disabled_at ON webhooks
    FOR EACH ROW
    WHEN ((NEW.disabled_at IS NULL) <> (OLD.disabled_at IS NULL))
    EXECUTE FUNCTION pause_or_resume();

-- A webhook that is well again gets at once what it missed; attempts under way are left alone,
-- which are those whose outcome is not written down yet.
CREATE FUNCTION catch_up() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE deliveries AS delivery
       SET due_at = now()
     WHERE delivery.workspace_id = NEW.workspace_id
       AND delivery.webhook_id = NEW.id
       AND delivery.state = 'due'
       AND delivery.due_at > now()
       AND EXISTS (
               SELECT
                 FROM attempts AS attempt
                WHERE attempt.workspace_id = delivery.workspace_id
                  AND attempt.delivery_id = delivery.id
                  AND attempt.number = delivery.attempts
           );
    RETURN NULL;
END
$$;

CREATE TRIGGER catch_up
    AFTER UPDATE OF failing_since ON webhooks
    FOR EACH ROW
    WHEN (OLD.failing_since IS NOT NULL AND NEW.failing_since IS NULL)
    EXECUTE FUNCTION catch_up();
