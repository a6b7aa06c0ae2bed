-- The webhooks of a workspace, oldest first: the data from which secrets derive, but no secret.
SELECT json_build_object(
           'id', webhook.id,
           'url', webhook.url,
           'events', nullif(webhook.events, '{}'),
           'secretNumber', webhook.secret_number,
           'keyFingerprint', webhook.key_fingerprint,
           'createdAt', iso(webhook.created_at),
           'disabledAt', iso(webhook.disabled_at),
           'disabledReason', webhook.disabled_reason,
           'version', webhook.version
       )::text AS body
  FROM webhooks AS webhook
 WHERE webhook.workspace_id = %(id)s
   AND webhook.deleted_at IS NULL
 ORDER BY webhook.id;
