-- The replaced secrets that still sign events, for all webhooks of a workspace.
SELECT json_build_object(
           'webhookId', webhook_id,
           'number', number,
           'keyFingerprint', key_fingerprint,
           'expiresAt', iso(expires_at)
       ) AS body
  FROM previous_secrets
 WHERE workspace_id = %(id)s
   AND webhook_id IN (
           SELECT id FROM webhooks WHERE workspace_id = %(id)s AND deleted_at IS NULL
       )
   AND expires_at > now()
 ORDER BY webhook_id, number;
