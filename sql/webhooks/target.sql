-- A ping of a webhook, in the form of a claimed delivery; no table has it.
WITH message AS MATERIALIZED (
    SELECT new_id() AS id
), named AS (
    SELECT message.id, 'evt_' || replace(message.id::text, '-', '') AS name
      FROM message
)
SELECT webhook.workspace_id,
       named.id,
       1 AS number,
       webhook.id AS webhook_id,
       webhook.url,
       secret.secret_numbers,
       secret.key_fingerprints,
       named.name AS message_id,
       json_build_object(
           'id', named.name,
           'type', 'ping',
           'timestamp', iso(now()),
           'workspaceId', webhook.workspace_id,
           'data', '{}'::json
       )::text AS body,
       0::float8 AS age
  FROM named
 CROSS JOIN webhooks AS webhook
 CROSS JOIN LATERAL signing_secrets(webhook) AS secret
 WHERE webhook.workspace_id = %(workspace_id)s::uuid
   AND webhook.id = %(id)s::uuid
   AND webhook.deleted_at IS NULL
   AND manages(%(user_id)s::uuid, %(workspace_id)s::uuid);
