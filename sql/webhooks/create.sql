-- Create a webhook in a workspace that has fewer than 20. Without events, it gets all types.
INSERT INTO webhooks AS webhook (workspace_id, url, events, key_fingerprint)
SELECT id,
       %(url)s,
       coalesce(%(events)s::text[], '{}'),
       %(key_fingerprint)s
  FROM workspaces
 WHERE id = %(workspace_id)s
   AND manages(%(user_id)s, %(workspace_id)s)
   AND lock_and_count_webhooks(id) < 20
RETURNING id,
          secret_number,
          row_to_json(show_webhook(webhook)) AS body,
          version;
