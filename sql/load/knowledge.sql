-- Insert knowledge entries, in the order of their lines.
INSERT INTO knowledge (workspace_id, id, title, content, tags, created_at, updated_at)
SELECT workspace_id,
       coalesce(id, new_id(coalesce(created_at, clock_timestamp()))),
       title,
       content,
       tags,
       coalesce(created_at, now_ms()),
       coalesce(updated_at, created_at, now_ms())
  FROM json_populate_recordset(NULL::knowledge, %(rows)s) WITH ORDINALITY
 ORDER BY ordinality;
