-- From now on, let changes in the active workspace write events, for at least WEBHOOK_KEEP hours.
INSERT INTO feeds AS feed (workspace_id, read_at)
SELECT member.workspace_id, now()
  FROM members AS member
 WHERE member.workspace_id = %(workspace_id)s
   AND member.user_id = %(user_id)s
    ON CONFLICT (workspace_id) DO UPDATE
   SET read_at = now()
RETURNING feed.ready;
