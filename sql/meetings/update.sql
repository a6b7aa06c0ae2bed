-- Change what the document names and keep all else; a document that changes nothing writes nothing.
-- Completing the meeting is announced; the specification knows no event for its other changes.
-- The row is locked first, so that the comparison is with what is there now, not with what was.
WITH present AS MATERIALIZED (
    SELECT meeting AS kept,
           jsonb_populate_record(meeting, %(changes)s::jsonb) AS wanted,
           (%(versions)s::integer[] IS NULL OR meeting.version = ANY (%(versions)s::integer[])) AS matched
      FROM meetings AS meeting
      JOIN members AS member ON member.workspace_id = meeting.workspace_id
     WHERE member.user_id = %(user_id)s::uuid
       AND meeting.id = %(id)s::uuid
       FOR NO KEY UPDATE OF meeting
), changed AS (
    UPDATE meetings AS meeting
       SET title = (wanted).title,
           start_time = (wanted).start_time,
           end_time = (wanted).end_time,
           platform = (wanted).platform,
           attendees = (wanted).attendees,
           agenda = (wanted).agenda,
           notes = (wanted).notes,
           status = (wanted).status,
           summary = (wanted).summary,
           action_items = (wanted).action_items,
           decisions = (wanted).decisions,
           updated_at = now_ms(),
           version = meeting.version + 1
      FROM present
     WHERE meeting.workspace_id = (kept).workspace_id
       AND meeting.id = (kept).id
       AND matched
       AND wanted IS DISTINCT FROM kept
 RETURNING meeting.workspace_id,
           meeting_details(meeting) AS body,
           meeting.version,
           meeting.status <> (kept).status AS completed
)
SELECT body,
       version,
       true AS matched,
       CASE WHEN completed THEN announce(workspace_id, 'meeting.completed', body) END AS event_id
  FROM changed
 UNION ALL
SELECT meeting_details(kept), (kept).version, matched, NULL
  FROM present
 WHERE NOT EXISTS (SELECT FROM changed);
