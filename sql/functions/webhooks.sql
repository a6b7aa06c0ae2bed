-- Webhooks with their secrets and deliveries.

-- Give the workspace of a new webhook a row in feeds. The row stays until the workspace is deleted.
CREATE OR REPLACE FUNCTION add_feed() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO feeds (workspace_id)
    VALUES (NEW.workspace_id)
        ON CONFLICT (workspace_id) DO NOTHING;
    RETURN NULL;
END
$$;

-- Return the secrets with which events for a webhook are signed now, newest first. At most five
-- previous secrets sign, because many servers take only 8 KB of headers.
CREATE OR REPLACE FUNCTION signing_secrets(
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
           (
               SELECT number, key_fingerprint
                 FROM previous_secrets
                WHERE workspace_id = webhook.workspace_id
                  AND webhook_id = webhook.id
                  AND expires_at > now()
                ORDER BY number DESC
                LIMIT 5
           )
           ) AS secret
$$;

-- Return whether a user may see and change this webhook. A webhook that a client has deleted counts
-- as missing.
CREATE OR REPLACE FUNCTION manages_webhook(
    user_id uuid, workspace_id uuid, webhook_id uuid
) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT manages(user_id, workspace_id)
           AND EXISTS (
                  SELECT
                    FROM webhooks
                   WHERE workspace_id = manages_webhook.workspace_id
                     AND id = manages_webhook.webhook_id
                     AND deleted_at IS NULL
              )
$$;

-- Return the number of webhooks of a workspace that get new events.
CREATE OR REPLACE FUNCTION enabled_webhooks(workspace_id uuid) RETURNS bigint
LANGUAGE sql STABLE
AS $$
    SELECT count(*)
      FROM webhooks
     WHERE webhooks.workspace_id = enabled_webhooks.workspace_id
       AND disabled_at IS NULL
$$;

-- Add a webhook to a workspace, and return it; NULLs if the credential is not one of an owner or an
-- admin, or if the workspace has 20 webhooks. No two new webhooks can both be the twentieth,
-- because the transaction has the workspace alone.
CREATE OR REPLACE FUNCTION add_webhook(
    workspace_id uuid, url text, events text[], key_fingerprint text, token_id uuid
) RETURNS webhooks
LANGUAGE plpgsql
AS $$
DECLARE
    webhook webhooks;
BEGIN
    PERFORM lock_workspace(workspace_id, token_id);
    IF present_role(token_id, workspace_id) IN ('owner', 'admin') AND (
        SELECT count(*) < 20
          FROM webhooks
         WHERE webhooks.workspace_id = add_webhook.workspace_id
           AND deleted_at IS NULL
    ) THEN
        INSERT INTO webhooks (workspace_id, url, events, key_fingerprint)
        VALUES (workspace_id, url, coalesce(events, '{}'), key_fingerprint)
     RETURNING *
          INTO webhook;
    END IF;
    RETURN webhook;
END
$$;

-- Lock a webhook and return it; no row if there is none, or if the credential is not one of an
-- owner or an admin. The transaction has the workspace alone, so that no other one writes events
-- for the webhook meanwhile.
CREATE OR REPLACE FUNCTION lock_webhook(
    workspace_id uuid, webhook_id uuid, token_id uuid
) RETURNS SETOF webhooks
LANGUAGE plpgsql
ROWS 1
AS $$
DECLARE
    webhook webhooks;
BEGIN
    PERFORM lock_workspace(workspace_id, token_id);
    -- A worker that records an outcome, or a change by an older release, may hold the row.
    SELECT *
      INTO webhook
      FROM webhooks
     WHERE webhooks.workspace_id = lock_webhook.workspace_id
       AND id = webhook_id
       AND deleted_at IS NULL
       FOR UPDATE;
    IF FOUND AND present_role(token_id, workspace_id) IN ('owner', 'admin') THEN
        RETURN NEXT webhook;
    END IF;
END
$$;

-- Make the waiting deliveries of a recovered webhook due, each of them no sooner than a pause after
-- its last attempt, and return their number. If one of them fails again, its schedule goes on as
-- before, because the schedule counts from the time of the event. A delivery that is claimed stays
-- as it is: its attempt has no outcome yet.
CREATE OR REPLACE FUNCTION catch_up(
    workspace_id uuid, webhook_id uuid, pause interval
) RETURNS bigint
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
CREATE OR REPLACE FUNCTION claim_delivery(in_workspace_id uuid, delivery_id uuid, lease float8)
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
        UPDATE deliveries
           SET due_at = now() + lease * interval '1 second',
               attempts = attempts + 1
         WHERE workspace_id = in_workspace_id
           AND id = delivery_id
     RETURNING workspace_id,
               id,
               attempts,
               webhook_id,
               event_id
    )
    SELECT claimed.workspace_id,
           claimed.id,
           claimed.attempts,
           webhook.id,
           webhook.url,
           secret.secret_numbers,
           secret.key_fingerprints,
           'evt_' || id_cursor(event.id),
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
CREATE OR REPLACE FUNCTION show_webhook(webhook webhooks) RETURNS webhook_document
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
           SELECT count(*) AS waiting, min(due_at) AS due_at
             FROM deliveries
            WHERE workspace_id = webhook.workspace_id
              AND webhook_id = webhook.id
              AND state = 'waiting'
           ) AS due
$$;

-- Return the bytes of a delivery's last 20 attempts, for fits_page().
CREATE OR REPLACE FUNCTION text_bytes(delivery deliveries) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT (sum(octet_length(answer)) + 100 * count(*))::integer
      FROM (
           SELECT answer
             FROM attempts
            WHERE workspace_id = delivery.workspace_id
              AND delivery_id = delivery.id
            ORDER BY number DESC
            LIMIT 20
           ) AS attempt
$$;

-- A delivery with its last 20 attempts, oldest first.
CREATE OR REPLACE FUNCTION delivery_json(delivery deliveries) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT row_to_json(
               ROW(
                   delivery.id,
                   'evt_' || id_cursor(event.id),
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
                              SELECT *
                                FROM attempts
                               WHERE workspace_id = delivery.workspace_id
                                 AND delivery_id = delivery.id
                               ORDER BY number DESC
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
