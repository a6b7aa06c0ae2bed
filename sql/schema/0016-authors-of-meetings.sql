-- migrate: in batches
-- left: SELECT count(*) FROM meetings
-- Store the author of each meeting that was never changed as the user who made its last change.
-- Each run visits the next 5000 meetings in the order of the primary key, so that no run searches
-- the whole table for rows. A setting of the session keeps the last visited meeting. The statement
-- returns the visited meetings, and so it runs again even if none of them needed a value.
-- If a request is changing one of these meetings, the UPDATE waits, and then skips it.
WITH progress AS (
    SELECT coalesce(
               nullif(current_setting('service.visited_meetings', true), ''),
               '{00000000-0000-0000-0000-000000000000,00000000-0000-0000-0000-000000000000}'
           )::uuid[] AS visited
), batch AS MATERIALIZED (
    SELECT meeting.ctid AS place, meeting.workspace_id, meeting.id
      FROM meetings AS meeting
     WHERE (meeting.workspace_id, meeting.id)
         > ((SELECT visited[1] FROM progress), (SELECT visited[2] FROM progress))
     ORDER BY meeting.workspace_id, meeting.id
     LIMIT 5000
), changed AS (
    UPDATE meetings AS meeting
       SET updated_by = meeting.created_by,
           updated_by_version = 1
     WHERE meeting.ctid = ANY (ARRAY(SELECT place FROM batch))
       AND meeting.version = 1
       AND meeting.updated_at = meeting.created_at
       AND meeting.updated_by_version IS NULL
)
SELECT set_config('service.visited_meetings', ARRAY[workspace_id, id]::text, false)
  FROM batch;
