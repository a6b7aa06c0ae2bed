-- Insert webhooks, in the order of their lines. With the same WEBHOOK_KEY, their secrets stay the
-- same.
INSERT INTO webhooks (
           workspace_id, id, url, events, secret_number, key_fingerprint, created_at,
           disabled_at, gap_since, disabled_reason, version
       )
SELECT item.workspace_id,
       coalesce(item.id, new_id(coalesce(item.created_at, clock_timestamp()))),
       item.url,
       coalesce(item.events, '{}'),
       item.secret_number,
       item.key_fingerprint,
       coalesce(item.created_at, now_ms()),
       item.disabled_at,
       item.disabled_at,
       item.disabled_reason,
       item.version
  FROM json_populate_recordset(NULL::webhooks, %(rows)s) WITH ORDINALITY AS item
 ORDER BY item.ordinality;
