-- Change the fields that the parameter names, and announce the change. If no value changes, write
-- nothing.
-- The statement finds the meeting as meetings/get does. It chooses the workspace before it locks
-- the row, so that no other meeting takes the place of one that another request deletes meanwhile.
-- The statement locks the row first, so that it checks the preconditions on the current version.
WITH locked AS MATERIALIZED (
    SELECT meeting AS before,
           version <@ %(versions)s::int4multirange AS matched,
           -- A precondition that fails comes before metadata that is too long.
           CASE
               WHEN version <@ %(versions)s
               THEN jsonb_populate_record(meeting, with_metadata(%(changes)s, metadata))
           END AS after
      FROM meetings AS meeting
     WHERE workspace_id = (
               SELECT workspace_id
                 FROM meeting_of_caller(
                          %(id)s, %(user_id)s, %(token_workspace_id)s, %(workspace_id)s
                      )
           )
       AND id = %(id)s
       FOR NO KEY UPDATE
), stored AS MATERIALIZED (
    SELECT before,
           matched,
           CASE
               WHEN matched AND after IS DISTINCT FROM before
               THEN update_meeting(after, %(user_id)s)
               ELSE before
           END AS meeting
      FROM locked
), shown AS MATERIALIZED (
    SELECT stored.*, meeting_details(meeting) AS body FROM stored
)
SELECT body,
       (meeting).version,
       matched,
       CASE
           WHEN (meeting).version <> (before).version
            AND EXISTS (SELECT FROM feeds WHERE workspace_id = (before).workspace_id)
           THEN announce(
                    (before).workspace_id,
                    CASE
                        WHEN (meeting).status <> (before).status THEN 'meeting.completed'
                        ELSE 'meeting.updated'
                    END,
                    body,
                    %(user_id)s,
                    meeting_with_outcome(before)
                )
       END AS event_id
  FROM shown;
