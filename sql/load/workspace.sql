-- Insert workspaces, in the order of their lines.
INSERT INTO workspaces (id, name, slug, plan, timezone, created_at, version)
SELECT coalesce(id, new_id(coalesce(created_at, clock_timestamp()))),
       name,
       slug,
       plan,
       timezone,
       coalesce(created_at, now_ms()),
       coalesce(version, 1)
  FROM json_populate_recordset(NULL::workspaces, %(rows)s) WITH ORDINALITY
 ORDER BY ordinality;
