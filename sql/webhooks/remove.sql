-- Remove a workspace's webhooks whose URLs match, with all that was to be sent to them.
DELETE FROM webhooks AS webhook
 USING workspaces AS workspace
 WHERE workspace.id = webhook.workspace_id
   AND workspace.slug = %(slug)s
   AND webhook.url ~ %(pattern)s::text;
