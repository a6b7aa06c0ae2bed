-- Give workspaces the versions in their lines: each batch of members has increased the versions.
UPDATE workspaces AS workspace
   SET version = item.version
  FROM json_to_recordset(%(rows)s) AS item (slug text, version integer)
 WHERE workspace.slug = item.slug
   AND workspace.version <> item.version;
