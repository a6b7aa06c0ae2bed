-- The knowledge entries of a workspace, oldest first.
SELECT knowledge_json(entry) AS body
  FROM knowledge AS entry
 WHERE workspace_id = %(id)s
 ORDER BY id;
