-- Remember the last versions of tasks and meetings that were deleted in another database.
INSERT INTO deleted_versions (workspace_id, id, version, deleted_at)
SELECT workspace_id, id, version, coalesce(deleted_at, now())
  FROM json_populate_recordset(NULL::deleted_versions, %(rows)s);
