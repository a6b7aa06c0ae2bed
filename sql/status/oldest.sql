-- The age of the oldest row of each kind that the worker prunes, and the age at which the worker
-- should prune it. If the clock has leapt ahead, the rows are younger than they seem.
-- Events that still wait for delivery, or were delivered recently, do not count.
SELECT kind,
       coalesce(
           extract(
               epoch FROM now() - oldest_at
               - coalesce((SELECT advanced_at - until FROM pruning_clock), '0 s')
           ),
           0
       )::float8 AS seconds,
       kept_seconds
  FROM (
           SELECT 'event' AS kind,
                  min(event.created_at) AS oldest_at,
                  %(keep)s::integer * 3600 AS kept_seconds
             FROM events AS event
            WHERE NOT EXISTS (
                      SELECT
                        FROM deliveries AS delivery
                       WHERE delivery.workspace_id = event.workspace_id
                         AND delivery.event_id = event.id
                         AND (
                                 delivery.state = 'waiting'
                                 OR delivery.finished_at
                                    >= now() - %(keep)s::integer * interval '1 hour'
                             )
                  )
            UNION ALL
           SELECT 'idempotency key', min(created_at), 86400
             FROM idempotency_keys
            UNION ALL
           SELECT 'usage', min(day_started_at), 172800
             FROM usage
       ) AS row_of_kind;
