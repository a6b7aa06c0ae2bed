-- Find the position up to which all events are committed, and note that the workspace is read.
-- events/list must run after this statement, with its own snapshot: only then does it see every
-- event up to this position.
WITH noted AS (
    UPDATE feeds AS feed
       SET read_at = now()
     WHERE workspace_id = %(workspace_id)s
       AND read_at < now() - interval '1 hour'
       AND EXISTS (
               SELECT
                 FROM members
                WHERE workspace_id = feed.workspace_id
                  AND user_id = %(user_id)s
           )
)
SELECT settled_position(%(workspace_id)s) AS position;
