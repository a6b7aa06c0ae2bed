-- The suggestions of a workspace, pending or not, oldest first.
SELECT suggestion_json(suggestion) AS body
  FROM suggestions AS suggestion
 WHERE workspace_id = %(id)s
 ORDER BY id;
