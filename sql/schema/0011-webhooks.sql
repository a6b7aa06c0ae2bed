-- Webhooks know which key their secrets derive from, and each previous secret until it expires.

-- The fingerprint of the key that the current secret derives from. NULL: of the oldest key that
-- WEBHOOK_KEY lists; the next process that starts with WEBHOOK_KEY writes it here.
ALTER TABLE webhooks ADD COLUMN key_fingerprint text;

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

-- From now on only processes of the version before this migration read webhooks.rotated_until.
INSERT INTO previous_secrets (workspace_id, webhook_id, number, expires_at)
SELECT webhook.workspace_id, webhook.id, webhook.secret_number - 1, webhook.rotated_until
  FROM webhooks AS webhook
 WHERE webhook.rotated_until > now()
   AND webhook.secret_number > 1;

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

-- Return whether a process that has these keys can sign for the webhook.
CREATE FUNCTION has_key(webhook webhooks, keys text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT webhook.key_fingerprint IS NULL OR webhook.key_fingerprint = ANY (keys)
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
