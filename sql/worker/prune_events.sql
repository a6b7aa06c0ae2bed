-- Delete the events of the next batch that are older than WEBHOOK_KEEP, with their deliveries and
-- attempts. An event stays while a delivery is due to an enabled webhook, or was finished within
-- WEBHOOK_KEEP, or while an earlier one may still be committed, for which a new reader would then
-- not wait; due deliveries to a disabled webhook end with their event.
-- Each call examines 1000 events at most, in the order of their age, and returns where the next
-- batch begins, so that events that stay never keep others from being deleted.
WITH examined AS MATERIALIZED (
    SELECT event.workspace_id, event.id, event.created_at, event.position
      FROM events AS event
     WHERE event.created_at < now() - %(keep)s::integer * interval '1 hour'
       AND (event.created_at, event.id) > (
               coalesce(nullif(substr(%(after)s::text, 38), '')::timestamptz, '-infinity'),
               coalesce(
                   nullif(left(%(after)s::text, 36), ''),
                   '00000000-0000-0000-0000-000000000000'
               )::uuid
           )
     ORDER BY event.created_at, event.id
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
                          OR delivery.finished_at >= now() - %(keep)s::integer * interval '1 hour'
                      )
           )
       -- Another worker that prunes deletes the ones that it has locked.
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
           SELECT examined.id || ' ' || examined.created_at
             FROM examined
            ORDER BY examined.created_at, examined.id
           OFFSET 999
       ) AS next;
