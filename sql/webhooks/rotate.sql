-- Give a webhook a new secret. For 24 hours, events are signed with the previous secret as well.
WITH previous AS (
    INSERT INTO previous_secrets (workspace_id, webhook_id, number, key_fingerprint, expires_at)
    SELECT workspace_id,
           id,
           secret_number,
           key_fingerprint,
           now() + interval '24 hours'
      -- A simultaneous rotation waits here.
      FROM lock_webhook(%(workspace_id)s, %(id)s, %(token_id)s)
 RETURNING workspace_id, webhook_id, number
), expired AS (
    DELETE FROM previous_secrets AS secret
     USING previous
     WHERE secret.workspace_id = previous.workspace_id
       AND secret.webhook_id = previous.webhook_id
       AND secret.expires_at <= now()
)
UPDATE webhooks AS webhook
   SET secret_number = previous.number + 1,
       key_fingerprint = %(key_fingerprint)s
  FROM previous
 WHERE webhook.workspace_id = previous.workspace_id
   AND webhook.id = previous.webhook_id
RETURNING webhook.id, webhook.secret_number;
