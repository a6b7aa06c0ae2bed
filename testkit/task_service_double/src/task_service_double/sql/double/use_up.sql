-- Use up a limit of a user, by the minute or by the day: the next request is 429.
INSERT INTO usage AS past (
           workspace_id, subject,
           minute_started_at, minute_count, day_started_at, day_count, admitted
       )
SELECT workspace.id,
       person.id::text,
       now(),
       CASE WHEN %(window)s::text = 'minute' THEN plan.per_minute ELSE 0 END,
       now(),
       CASE WHEN %(window)s::text = 'day' THEN plan.per_day ELSE 0 END,
       true
  FROM users AS person
  JOIN workspaces AS workspace ON workspace.id = person.active_workspace_id
  JOIN plans AS plan ON plan.name = workspace.plan
 WHERE person.id = %(user_id)s::uuid
   AND (%(window)s::text = 'minute' OR plan.per_day IS NOT NULL)
    ON CONFLICT (workspace_id, subject) DO UPDATE
   SET (minute_started_at, minute_count, day_started_at, day_count)
       = (
           excluded.minute_started_at,
           greatest(excluded.minute_count, past.minute_count),
           excluded.day_started_at,
           greatest(excluded.day_count, past.day_count)
       )
RETURNING past.subject;
