-- Delete the events of the next batch that are older than WEBHOOK_KEEP, with deliveries and
-- attempts.
-- An event stays in three cases: a delivery to an enabled webhook is waiting; a delivery was
-- finished within WEBHOOK_KEEP; or the event lies beyond the settled position, so that an earlier
-- event may still be committed. In the last case, deleting it would move complete_after past the
-- earlier event, and a new reader would begin there and never see the earlier event. Waiting
-- deliveries to a disabled webhook are deleted with their event.
-- Each call examines at most 1000 events, oldest first, and returns where the next batch begins. So
-- events that stay do not keep later ones from being deleted.
WITH examined AS MATERIALIZED (
    SELECT workspace_id, id, created_at, position
      FROM events
     WHERE created_at < pruning_time() - %(keep)s::integer * interval '1 hour'
       AND (created_at, id) > (
               coalesce(nullif(substr(%(after)s, 38), '')::timestamptz, '-infinity'),
               coalesce(
                   nullif(left(%(after)s, 36), ''),
                   '00000000-0000-0000-0000-000000000000'
               )::uuid
           )
     ORDER BY created_at, id
     LIMIT 1000
), settled AS MATERIALIZED (
    SELECT workspace_id, settled_position(workspace_id) AS position
      FROM (SELECT DISTINCT workspace_id FROM examined) AS workspace
), expired AS MATERIALIZED (
    SELECT event.workspace_id, event.id
      FROM examined
      JOIN settled
        ON settled.workspace_id = examined.workspace_id AND settled.position >= examined.position
      JOIN events AS event
        ON event.workspace_id = examined.workspace_id AND event.id = examined.id
     WHERE NOT EXISTS (
               SELECT
                 FROM deliveries AS delivery
                 JOIN webhooks AS webhook
                   ON webhook.workspace_id = delivery.workspace_id
                  AND webhook.id = delivery.webhook_id
                WHERE delivery.workspace_id = event.workspace_id
                  AND delivery.event_id = event.id
                  AND (
                          delivery.state = 'waiting' AND webhook.disabled_at IS NULL
                          OR delivery.finished_at >= pruning_time() - %(keep)s * interval '1 hour'
                      )
           )
       -- Another worker that prunes at the same time deletes the events that it has locked.
       FOR UPDATE OF event SKIP LOCKED
), deleted AS (
    DELETE FROM events AS event
     USING expired
     WHERE event.workspace_id = expired.workspace_id
       AND event.id = expired.id
 RETURNING event.workspace_id, event.position
), incomplete AS (
    UPDATE feeds AS feed
       SET complete_after = greatest(feed.complete_after, gone.position)
      FROM (
           SELECT workspace_id, max(position) AS position FROM deleted GROUP BY workspace_id
           ) AS gone
     WHERE feed.workspace_id = gone.workspace_id
 RETURNING feed.workspace_id, feed.complete_after
), forgotten AS (
    DELETE FROM event_cursors AS cursor
     USING incomplete
     WHERE cursor.workspace_id = incomplete.workspace_id
       AND cursor.position < incomplete.complete_after
)
SELECT (SELECT count(*) FROM deleted) AS deleted,
       (
           SELECT id || ' ' || created_at
             FROM examined
            ORDER BY created_at, id
           OFFSET 999
       ) AS next;
