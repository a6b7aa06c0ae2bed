-- The webhooks of a workspace, oldest first: the data from which secrets derive, but no secret.
SELECT json_build_object(
           'id', id,
           'url', url,
           'events', nullif(events, '{}'),
           'secretNumber', secret_number,
           'keyFingerprint', key_fingerprint,
           'createdAt', iso(created_at),
           'disabledAt', iso(disabled_at),
           'disabledReason', disabled_reason,
           'version', version
       ) AS body
  FROM webhooks
 WHERE workspace_id = %(id)s
   AND deleted_at IS NULL
 ORDER BY id;
