-- Forget a batch of what has been finished for long enough: events that every webhook has long been
-- done with, their deliveries and attempts; keys that are a day old; and the counters of subjects not
-- seen for two days.
WITH old AS MATERIALIZED (
    SELECT DISTINCT delivery.workspace_id, delivery.event_id
      FROM deliveries AS delivery
     WHERE delivery.state IN ('delivered', 'failed')
       AND delivery.finished_at < now() - %(keep)s::integer * interval '1 hour'
       AND NOT EXISTS (
               SELECT
                 FROM deliveries AS other
                WHERE other.workspace_id = delivery.workspace_id
                  AND other.event_id = delivery.event_id
                  AND (
                          other.state = 'due'
                          OR other.finished_at >= now() - %(keep)s::integer * interval '1 hour'
                      )
           )
     LIMIT 1000
), forgotten AS (
    DELETE FROM events AS event
     USING old
     WHERE event.workspace_id = old.workspace_id
       AND event.id = old.event_id
 RETURNING event.id
), lapsed AS (
    DELETE FROM idempotency_keys
     WHERE ctid = ANY (
               ARRAY(
                   SELECT ctid
                     FROM idempotency_keys
                    WHERE created_at < now() - interval '24 hours'
                    LIMIT 1000
               )
           )
       -- Once more, for a key that is taken anew at this moment: not every release looks at ctid again.
       AND created_at < now() - interval '24 hours'
 RETURNING key
), unseen AS (
    DELETE FROM usage
     WHERE ctid = ANY (
               ARRAY(
                   SELECT ctid
                     FROM usage
                    WHERE day_started_at < now() - interval '2 days'
                    LIMIT 1000
               )
           )
 RETURNING subject
)
SELECT (SELECT count(*) FROM forgotten)
     + (SELECT count(*) FROM lapsed)
     + (SELECT count(*) FROM unseen) AS count;
