-- Insert secrets of webhooks that rotations have replaced.
INSERT INTO previous_secrets (workspace_id, webhook_id, number, key_fingerprint, expires_at)
SELECT item.workspace_id, item.webhook_id, item.number, item.key_fingerprint, item.expires_at
  FROM json_to_recordset(%(rows)s::json) AS item (
           line integer,
           workspace_id uuid,
           webhook_id uuid,
           number integer,
           key_fingerprint text,
           expires_at timestamptz
       )
 ORDER BY item.line;
