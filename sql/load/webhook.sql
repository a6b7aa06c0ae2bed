-- Insert webhooks, in the order of their lines. With the same WEBHOOK_KEY, their secrets stay the
-- same.
INSERT INTO webhooks (
           workspace_id, id, url, events, secret_number, key_fingerprint, created_at,
           disabled_at, gap_since, disabled_reason, version
       )
SELECT workspace_id,
       coalesce(id, new_id(coalesce(created_at, clock_timestamp()))),
       url,
       coalesce(events, '{}'),
       secret_number,
       key_fingerprint,
       coalesce(created_at, now_ms()),
       disabled_at,
       disabled_at,
       disabled_reason,
       version
  FROM json_populate_recordset(NULL::webhooks, %(rows)s) WITH ORDINALITY
 ORDER BY ordinality;
