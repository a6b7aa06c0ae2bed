-- The replaced secrets that still sign events, for all webhooks of a workspace.
SELECT json_build_object(
           'webhookId', secret.webhook_id,
           'number', secret.number,
           'keyFingerprint', secret.key_fingerprint,
           'expiresAt', iso(secret.expires_at)
       ) AS body
  FROM previous_secrets AS secret
  JOIN webhooks AS webhook
    ON webhook.workspace_id = secret.workspace_id AND webhook.id = secret.webhook_id
 WHERE secret.workspace_id = %(id)s
   AND webhook.deleted_at IS NULL
   AND secret.expires_at > now()
 ORDER BY secret.webhook_id, secret.number;
