-- The knowledge entries of a workspace, oldest first.
SELECT knowledge_json(entry) AS body
  FROM knowledge AS entry
 WHERE entry.workspace_id = %(id)s
 ORDER BY entry.id;
