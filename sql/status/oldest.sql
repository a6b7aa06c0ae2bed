-- The age of the oldest row of each kind that the worker prunes, and the age at which the worker
-- should prune it.
-- Events that still wait for delivery, or were delivered recently, do not count.
SELECT 'event' AS kind,
       coalesce(extract(epoch FROM now() - min(event.created_at)), 0)::float8 AS seconds,
       %(keep)s::integer * 3600 AS kept_seconds
  FROM events AS event
 WHERE NOT EXISTS (
           SELECT
             FROM deliveries AS delivery
            WHERE delivery.workspace_id = event.workspace_id
              AND delivery.event_id = event.id
              AND (
                      delivery.state = 'waiting'
                      OR delivery.finished_at >= now() - %(keep)s::integer * interval '1 hour'
                  )
       )
 UNION ALL
SELECT 'idempotency key',
       coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8,
       86400
  FROM idempotency_keys
 UNION ALL
SELECT 'usage',
       coalesce(extract(epoch FROM now() - min(day_started_at)), 0)::float8,
       172800
  FROM usage;
