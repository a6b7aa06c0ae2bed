-- End the feeds that no client has polled for WEBHOOK_KEEP hours. Changes in their workspaces no
-- longer write events for them, and their cursors become invalid. One hour is added because read_at
-- is up to an hour old.
WITH ended AS (
    UPDATE feeds
       SET read_at = NULL,
           ready = false,
           history = gen_random_uuid()
     WHERE read_at < pruning_time() - (%(keep)s + 1) * interval '1 hour'
 RETURNING workspace_id
)
SELECT count(*) AS deleted, NULL AS next
  FROM ended;
