-- Delete the webhooks of a workspace whose URLs match, with their deliveries.
DELETE FROM webhooks AS webhook
 USING workspaces AS workspace
 WHERE workspace.id = webhook.workspace_id
   AND workspace.slug = %(slug)s
   AND webhook.url ~ %(pattern)s;
