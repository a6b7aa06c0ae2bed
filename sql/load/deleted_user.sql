-- Insert the ids of users who were deleted in another database, unless the ids are known here.
INSERT INTO deleted_users (id, deleted_at)
SELECT id, deleted_at
  FROM json_populate_recordset(NULL::deleted_users, %(rows)s)
    ON CONFLICT (id) DO NOTHING;
