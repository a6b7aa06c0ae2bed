-- Change the URL and the events, if the parameter names them, and enable or disable a webhook.
-- A webhook that is enabled or gets a new URL is no longer failing, and its waiting deliveries
-- become due now.
WITH locked AS MATERIALIZED (
    SELECT webhook AS before,
           jsonb_populate_record(webhook, %(changes)s) AS changed,
           version <@ %(versions)s::int4multirange AS matched
      FROM lock_webhook(%(workspace_id)s, %(id)s, %(token_id)s) AS webhook
), after AS (
    SELECT matched,
           (changed).url,
           coalesce((changed).events, '{}') AS events,
           coalesce(%(enabled)s, false) OR (changed).url <> (before).url AS resumed,
           CASE %(enabled)s
               WHEN true THEN NULL
               WHEN false THEN coalesce((before).disabled_at, now())
               ELSE (before).disabled_at
           END AS disabled_at
      FROM locked
), updated AS (
    UPDATE webhooks AS webhook
       SET url = after.url,
           events = after.events,
           disabled_at = after.disabled_at,
           disabled_reason = CASE
               WHEN after.disabled_at IS NOT NULL
               THEN coalesce(webhook.disabled_reason, %(reason)s)
           END,
           gap_since = coalesce(after.disabled_at, webhook.gap_since),
           failing_since = CASE WHEN NOT resumed THEN webhook.failing_since END,
           backoff_until = CASE WHEN NOT resumed THEN webhook.backoff_until END
      FROM after
     WHERE webhook.workspace_id = %(workspace_id)s
       AND webhook.id = %(id)s
       AND matched
       AND (
               (after.url, after.events, after.disabled_at)
               IS DISTINCT FROM (webhook.url, webhook.events, webhook.disabled_at)
               OR resumed AND (
                      webhook.failing_since IS NOT NULL
                      OR EXISTS (
                             SELECT
                               FROM deliveries
                              WHERE workspace_id = webhook.workspace_id
                                AND webhook_id = webhook.id
                                AND state = 'waiting'
                                AND due_at > now()
                         )
                  )
           )
 RETURNING webhook.version,
           CASE WHEN resumed THEN catch_up(webhook.workspace_id, webhook.id, interval '0') END
)
SELECT (before).id,
       coalesce((SELECT updated.version FROM updated), (before).version) AS version,
       matched,
       CASE WHEN NOT matched THEN row_to_json(show_webhook(before)) END AS body
  FROM locked;
