-- End the feeds that have had no reader for WEBHOOK_KEEP: changes in their workspaces write no
-- events for them any more, and the cursors are gone. The hour is the precision of read_at.
WITH ended AS (
    UPDATE feeds AS feed
       SET read_at = NULL,
           ready = false,
           history = gen_random_uuid()
     WHERE feed.read_at < now() - (%(keep)s::integer + 1) * interval '1 hour'
 RETURNING feed.workspace_id
)
SELECT count(*) AS deleted, NULL::text AS next
  FROM ended;
