-- Wait until each transaction has ended that may not have seen the feed of the active workspace;
-- without success within a second, return no row.
UPDATE feeds AS feed
   SET ready = true
  FROM wait_for_writers(1) AS ended
 WHERE ended
   AND feed.workspace_id = %(workspace_id)s::uuid
   AND EXISTS (
           SELECT
             FROM members AS member
            WHERE member.workspace_id = feed.workspace_id
              AND member.user_id = %(user_id)s::uuid
       )
RETURNING feed.ready;
