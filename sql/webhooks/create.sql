-- Create a webhook in a workspace; an empty list of events means all.
INSERT INTO webhooks AS webhook (workspace_id, url, events, key_fingerprint)
SELECT workspace.id, %(url)s, %(events)s::text[], %(key_fingerprint)s::text
  FROM workspaces AS workspace
 WHERE workspace.slug = %(slug)s
RETURNING webhook.id, webhook.secret_number;
