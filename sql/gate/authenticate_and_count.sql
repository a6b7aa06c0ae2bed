-- Find the credential and the workspace of a request, and count the request, in one round trip.
-- "caller" always has one row: its columns are NULL without a valid credential. A user is counted
-- per active workspace, and a caller without a valid credential per client address. Without a
-- workspace, the nil workspace takes its place. If the caller may not use the named workspace, the
-- request counts as if it named none.
-- "hit" counts in one row of usage, which has two windows: a minute and a day. A window begins with
-- the first request after the end of the previous window, and does not follow the clock. A request
-- beyond a limit is rejected and not counted, so that a client that keeps asking is admitted as
-- soon as the next window begins.
-- For example, with 60 requests per minute, 60 requests from 12:00:20 on are admitted. The 61st is
-- rejected until 12:01:20, when the count begins at 0 again.
-- ON CONFLICT locks the row, so that simultaneous requests of a user are counted one after another.
WITH caller AS MATERIALIZED (
    SELECT token.id AS token_id,
           token.workspace_id AS token_workspace_id,
           token.scope,
           token.last_used_at,
           person.id AS user_id,
           workspace.id AS workspace_id,
           -- If an operator has renamed the plan Starter, these built-in limits apply instead.
           coalesce(plan.per_minute, starter.per_minute) AS per_minute,
           CASE WHEN plan.name IS NULL THEN starter.per_day ELSE plan.per_day END AS per_day,
           now() AS now
      FROM (VALUES (60, 10000)) AS starter (per_minute, per_day)
      LEFT JOIN (
               tokens AS token
               JOIN users AS person
                 ON person.id = token.user_id
                AND person.deactivated_at IS NULL
           )
        ON token.hash = %(hash)s::bytea
       AND token.kind = %(kind)s::text
       AND token.revoked_at IS NULL
       AND (token.expires_at IS NULL OR token.expires_at > now())
      LEFT JOIN workspaces AS workspace
        ON workspace.id = coalesce(
               -- A join here would slow down every request, but few requests name a workspace.
               CASE WHEN %(requested_workspace_id)s::uuid IS NOT NULL
                    THEN usable_workspace(
                             person.id, token.workspace_id, %(requested_workspace_id)s::uuid
                         )
               END,
               token.workspace_id,
               person.active_workspace_id
           )
      LEFT JOIN plans AS plan ON plan.name = coalesce(workspace.plan, 'Starter')
), hit AS (
    INSERT INTO usage AS past (
               workspace_id, subject,
               minute_started_at, minute_count, day_started_at, day_count, admitted
           )
    SELECT coalesce(workspace_id, '00000000-0000-0000-0000-000000000000'),
           coalesce(user_id::text, %(address)s::text),
           now, 1, now, 1, true
      FROM caller
        ON CONFLICT (workspace_id, subject) DO UPDATE
       SET (minute_started_at, minute_count, day_started_at, day_count, admitted) = (
               SELECT minute_started_at,
                      minute_count + admitted::integer,
                      day_started_at,
                      day_count + admitted::integer,
                      admitted
                 FROM caller
                CROSS JOIN LATERAL (
                       SELECT now >= past.minute_started_at + interval '1 minute' AS new_minute,
                              now >= past.day_started_at + interval '24 hours' AS new_day
                      ) AS turn
                CROSS JOIN LATERAL (
                       -- least() keeps the window from getting longer if the clock was set back.
                       SELECT CASE WHEN new_minute THEN now
                                   ELSE least(past.minute_started_at, now) END,
                              CASE WHEN new_minute THEN 0 ELSE past.minute_count END,
                              CASE WHEN new_day THEN now
                                   ELSE least(past.day_started_at, now) END,
                              CASE WHEN new_day THEN 0 ELSE past.day_count END
                      ) AS present (minute_started_at, minute_count, day_started_at, day_count)
                CROSS JOIN LATERAL (
                       SELECT minute_count < per_minute
                              AND (per_day IS NULL OR day_count < per_day) AS admitted
                       -- OFFSET 0 keeps PostgreSQL from inlining the subquery and evaluating it at
                       -- each use.
                       OFFSET 0
                      ) AS verdict
           )
 RETURNING admitted, minute_started_at, minute_count, day_started_at, day_count,
           -- The commit of this count does not wait for the disk. The commit of a user's change
           -- does.
           set_config('synchronous_commit', 'off', true)
)
SELECT caller.token_id,
       caller.user_id,
       caller.workspace_id,
       caller.token_workspace_id,
       caller.scope,
       caller.token_id IS NOT NULL
       AND (caller.last_used_at IS NULL OR caller.last_used_at < caller.now - interval '1 minute')
           AS record_use,
       hit.admitted,
       caller.per_minute,
       hit.minute_count,
       date_part('epoch', hit.minute_started_at) + 60 AS minute_ends,
       caller.per_day,
       hit.day_count,
       date_part('epoch', hit.day_started_at) + 86400 AS day_ends,
       date_part('epoch', caller.now) AS now
  FROM caller
 CROSS JOIN hit;
