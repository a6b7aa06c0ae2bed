-- Insert the secrets of webhooks that rotations have replaced.
INSERT INTO previous_secrets (workspace_id, webhook_id, number, key_fingerprint, expires_at)
SELECT workspace_id, webhook_id, number, key_fingerprint, expires_at
  FROM json_populate_recordset(NULL::previous_secrets, %(rows)s);
