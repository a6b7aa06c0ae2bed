-- Set the versions of workspaces to those of their lines: each batch of members has increased them.
UPDATE workspaces AS workspace
   SET version = item.version
  FROM json_to_recordset(%(rows)s::json) AS item (slug text, version integer)
 WHERE workspace.slug = item.slug
   AND workspace.version <> item.version;
