-- Insert the ids of users who were deleted elsewhere, unless they are known.
INSERT INTO deleted_users (id, deleted_at)
SELECT item.id, item.deleted_at
  FROM json_to_recordset(%(rows)s::json) AS item (
           line integer,
           id uuid,
           deleted_at timestamptz
       )
 ORDER BY item.line
    ON CONFLICT (id) DO NOTHING;
