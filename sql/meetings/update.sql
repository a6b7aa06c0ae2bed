-- Change the fields that the parameter names, and announce the change. If no value changes, write
-- nothing.
-- The statement finds the meeting as meetings/get does. It chooses the workspace before it locks
-- the row, so that no other meeting takes the place of one that another request deletes meanwhile.
-- The statement locks the row first, so that it checks the preconditions on the current version.
WITH place AS MATERIALIZED (
    SELECT meeting.workspace_id
      FROM meeting_of_caller(
               %(id)s::uuid,
               %(user_id)s::uuid,
               %(token_workspace_id)s::uuid,
               %(workspace_id)s::uuid
           ) AS meeting
), locked AS MATERIALIZED (
    SELECT meeting AS before,
           jsonb_populate_record(meeting, %(changes)s::jsonb) AS after,
           meeting.version <@ %(versions)s::int4multirange AS matched
      FROM meetings AS meeting
     WHERE meeting.workspace_id = (SELECT workspace_id FROM place)
       AND meeting.id = %(id)s::uuid
       FOR NO KEY UPDATE OF meeting
), changed AS (
    UPDATE meetings AS meeting
       SET title = (after).title,
           start_time = (after).start_time,
           end_time = (after).end_time,
           platform = (after).platform,
           attendees = (after).attendees,
           agenda = (after).agenda,
           notes = (after).notes,
           status = (after).status,
           summary = (after).summary,
           action_items = (after).action_items,
           decisions = (after).decisions,
           updated_at = now_ms(),
           version = meeting.version + 1,
           updated_by = %(user_id)s::uuid,
           updated_by_version = meeting.version + 1
      FROM locked
     WHERE meeting.workspace_id = (before).workspace_id
       AND meeting.id = (before).id
       AND matched
       AND after IS DISTINCT FROM before
 RETURNING meeting.workspace_id,
           meeting_details(meeting) AS body,
           meeting.version,
           meeting.status <> (before).status AS completed
)
SELECT coalesce(changed.body, meeting_details(before)) AS body,
       coalesce(changed.version, (before).version) AS version,
       matched,
       CASE
           WHEN EXISTS (SELECT FROM feeds WHERE feeds.workspace_id = changed.workspace_id)
           THEN announce(
                    changed.workspace_id,
                    CASE WHEN completed THEN 'meeting.completed' ELSE 'meeting.updated' END,
                    changed.body,
                    %(user_id)s::uuid,
                    meeting_with_outcome(before)
                )
       END AS event_id
  FROM locked
  LEFT JOIN changed ON true;
