-- Delete a webhook with its deliveries.
WITH locked AS MATERIALIZED (
    SELECT webhook.id,
           webhook.version,
           (%(versions)s::integer[] IS NULL
            OR webhook.version = ANY (%(versions)s::integer[])) AS matched
      FROM webhooks AS webhook
     WHERE webhook.workspace_id = %(workspace_id)s::uuid
       AND webhook.id = %(id)s::uuid
       AND manages(%(user_id)s::uuid, %(workspace_id)s::uuid)
       FOR UPDATE
), deleted AS (
    DELETE FROM webhooks AS webhook
     USING locked
     WHERE webhook.workspace_id = %(workspace_id)s::uuid
       AND webhook.id = locked.id
       AND matched
)
SELECT locked.id, locked.version, locked.matched
  FROM locked;
