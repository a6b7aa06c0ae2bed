-- Wait until each transaction has ended that may not have seen the feed of the active workspace;
-- without success within 50 ms, return no row: the reader comes again, and blocks no thread.
UPDATE feeds AS feed
   SET ready = true
  FROM wait_for_writers(0.05) AS ended
 WHERE ended
   AND feed.workspace_id = %(workspace_id)s::uuid
   AND feed.read_at IS NOT NULL
   AND EXISTS (
           SELECT
             FROM members AS member
            WHERE member.workspace_id = feed.workspace_id
              AND member.user_id = %(user_id)s::uuid
       )
RETURNING feed.ready;
