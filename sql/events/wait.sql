-- Wait until every transaction that may have missed the new feed has ended, and mark the feed of
-- the active workspace as ready.
-- If they have not ended within 50 ms, return no row. The client then tries again later, so that it
-- blocks no thread.
UPDATE feeds AS feed
   SET ready = true
  FROM wait_for_writers(0.05) AS ended
 WHERE ended
   AND workspace_id = %(workspace_id)s
   AND read_at IS NOT NULL
   AND EXISTS (
           SELECT
             FROM members
            WHERE workspace_id = feed.workspace_id
              AND user_id = %(user_id)s
       )
RETURNING ready;
