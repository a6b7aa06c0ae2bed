-- Insert workspaces, in the order of their lines.
INSERT INTO workspaces (id, name, slug, plan, timezone, created_at, version)
SELECT coalesce(item.id, new_id(coalesce(item.created_at, clock_timestamp()))),
       item.name,
       item.slug,
       item.plan,
       item.timezone,
       coalesce(item.created_at, now_ms()),
       coalesce(item.version, 1)
  FROM json_populate_recordset(NULL::workspaces, %(rows)s) WITH ORDINALITY AS item
 ORDER BY item.ordinality;
