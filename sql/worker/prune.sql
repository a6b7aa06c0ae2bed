-- Delete a batch of old rows: events without a delivery that is due or was finished lately, with
-- their deliveries and attempts; Idempotency-Keys after a day; usage after two days; zero counts.
WITH expired_events AS MATERIALIZED (
    SELECT event.workspace_id, event.id
      FROM events AS event
     WHERE event.created_at < now() - %(keep)s::integer * interval '1 hour'
       AND NOT EXISTS (
               SELECT
                 FROM deliveries AS delivery
                WHERE delivery.workspace_id = event.workspace_id
                  AND delivery.event_id = event.id
                  AND (
                          delivery.state = 'due'
                          OR delivery.finished_at >= now() - %(keep)s::integer * interval '1 hour'
                      )
           )
     ORDER BY event.created_at
     LIMIT 1000
), deleted_events AS (
    DELETE FROM events AS event
     USING expired_events
     WHERE event.workspace_id = expired_events.workspace_id
       AND event.id = expired_events.id
 RETURNING event.id
), deleted_keys AS (
    DELETE FROM idempotency_keys
     WHERE ctid = ANY (
               ARRAY(
                   SELECT ctid
                     FROM idempotency_keys
                    WHERE created_at < now() - interval '24 hours'
                    LIMIT 1000
               )
           )
       -- Again, here and below: another transaction may have renewed the row since.
       AND created_at < now() - interval '24 hours'
 RETURNING key
), deleted_usage AS (
    DELETE FROM usage
     WHERE ctid = ANY (
               ARRAY(
                   SELECT ctid
                     FROM usage
                    WHERE day_started_at < now() - interval '2 days'
                    LIMIT 1000
               )
           )
       AND day_started_at < now() - interval '2 days'
 RETURNING subject
), deleted_counts AS (
    DELETE FROM task_counts
     WHERE ctid = ANY (ARRAY(SELECT ctid FROM task_counts WHERE total = 0 LIMIT 1000))
       AND total = 0
 RETURNING slot
)
SELECT (SELECT count(*) FROM deleted_events)
     + (SELECT count(*) FROM deleted_keys)
     + (SELECT count(*) FROM deleted_usage)
     + (SELECT count(*) FROM deleted_counts) AS deleted;
