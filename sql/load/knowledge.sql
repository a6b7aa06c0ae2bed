-- Insert knowledge entries, in the order of their lines.
INSERT INTO knowledge (workspace_id, id, title, content, tags, created_at, updated_at)
SELECT item.workspace_id,
       coalesce(item.id, new_id(coalesce(item.created_at, clock_timestamp()))),
       item.title,
       item.content,
       item.tags,
       coalesce(item.created_at, now_ms()),
       coalesce(item.updated_at, item.created_at, now_ms())
  FROM json_populate_recordset(NULL::knowledge, %(rows)s) WITH ORDINALITY AS item
 ORDER BY item.ordinality;
