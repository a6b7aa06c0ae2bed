-- Insert the secrets of webhooks that rotations have replaced.
INSERT INTO previous_secrets (workspace_id, webhook_id, number, key_fingerprint, expires_at)
SELECT item.workspace_id, item.webhook_id, item.number, item.key_fingerprint, item.expires_at
  FROM json_populate_recordset(NULL::previous_secrets, %(rows)s) WITH ORDINALITY AS item
 ORDER BY item.ordinality;
