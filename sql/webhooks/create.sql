-- Create a webhook in a workspace that has fewer than 20. Without events, it gets all types.
SELECT id,
       secret_number,
       row_to_json(show_webhook(webhook)) AS body,
       version
  FROM add_webhook(
           %(workspace_id)s, %(url)s, %(events)s, %(key_fingerprint)s, %(token_id)s
       ) AS webhook
 WHERE id IS NOT NULL;
