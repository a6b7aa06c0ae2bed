-- From now on, let changes in the active workspace write events, for at least WEBHOOK_KEEP hours.
INSERT INTO feeds (workspace_id, read_at)
SELECT workspace_id, now()
  FROM members
 WHERE workspace_id = %(workspace_id)s
   AND user_id = %(user_id)s
    ON CONFLICT (workspace_id) DO UPDATE
   SET read_at = now()
RETURNING ready;
