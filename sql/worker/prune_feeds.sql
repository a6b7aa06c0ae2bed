-- End the feeds that have had no reader for WEBHOOK_KEEP: changes in their workspaces write no
-- events for them any more. The hour is the precision of read_at.
WITH deleted AS (
    DELETE FROM feeds AS feed
     WHERE feed.read_at < now() - (%(keep)s::integer + 1) * interval '1 hour'
 RETURNING feed.workspace_id
)
SELECT count(*) AS deleted, NULL::text AS next
  FROM deleted;
