-- Delete a meeting of any workspace that the caller belongs to, and announce its last state.
-- The statement finds the meeting as meetings/get does. It chooses the workspace before it locks
-- the row, so that no other meeting takes the place of one that another request deletes meanwhile.
WITH target AS MATERIALIZED (
    SELECT workspace_id,
           id,
           version,
           version <@ %(versions)s::int4multirange AS matched,
           meeting_details(meeting) AS body
      FROM meetings AS meeting
     WHERE workspace_id = (
               SELECT workspace_id
                 FROM meeting_of_caller(
                          %(id)s, %(user_id)s, %(token_workspace_id)s, %(workspace_id)s
                      )
           )
       AND id = %(id)s
       FOR UPDATE
), deleted AS (
    DELETE FROM meetings AS meeting
     USING target
     WHERE meeting.workspace_id = target.workspace_id
       AND meeting.id = target.id
       AND matched
 RETURNING meeting.workspace_id
)
SELECT version,
       matched,
       CASE WHEN NOT matched THEN body END AS body,
       announce(deleted.workspace_id, 'meeting.deleted', body, %(user_id)s) AS event_id
  FROM target
  LEFT JOIN deleted ON true;
