-- Find the caller of a request, and count the request, in one round trip.
-- There is always one row: without a valid credential, the columns of the caller are NULL.
-- A user is counted per active workspace (the nil one if there is none), others per address.
WITH caller AS (
    SELECT token.id AS token_id,
           person.id AS user_id,
           workspace.id AS workspace_id,
           token.workspace_id AS token_workspace_id,
           token.scope,
           CASE WHEN workspace.has_moved THEN workspace.moves_to END AS moved_to,
           token.id IS NOT NULL
           AND coalesce(token.last_used_at < now() - interval '1 minute', true) AS record_use,
           -- If an operator has renamed the plan Starter, its usual limits apply instead.
           coalesce(plan.per_minute, 60) AS per_minute,
           CASE WHEN plan.name IS NULL THEN 10000 ELSE plan.per_day END AS per_day
      FROM (SELECT) AS request
      LEFT JOIN (tokens AS token JOIN users AS person ON person.id = token.user_id)
        ON token.hash = %(hash)s
       AND token.kind = %(kind)s
       AND is_live(token)
       AND person.deactivated_at IS NULL
      -- If the caller may not use the named workspace, the request counts as if it named none.
      LEFT JOIN workspaces AS workspace ON workspace.id = coalesce(
               CASE WHEN %(requested_workspace_id)s::uuid IS NOT NULL THEN usable_workspace(
                    person.id, token.workspace_id, %(requested_workspace_id)s) END,
               token.workspace_id,
               person.active_workspace_id
           )
      LEFT JOIN plans AS plan ON plan.name = coalesce(workspace.plan, 'Starter')
)
SELECT token_id, user_id, caller.workspace_id, token_workspace_id, scope, moved_to, record_use,
       hit.admitted,
       per_minute, hit.minute_count, date_part('epoch', hit.minute_started_at) + 60 AS minute_ends,
       per_day, hit.day_count, date_part('epoch', hit.day_started_at) + 86400 AS day_ends,
       date_part('epoch', now()) AS now
  FROM caller
 CROSS JOIN LATERAL count_request(
       coalesce(caller.workspace_id, '00000000-0000-0000-0000-000000000000'),
       coalesce(user_id::text, %(address)s), per_minute, per_day
       ) AS hit;
