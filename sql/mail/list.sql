-- One page of the caller's mail in the active workspace, latest first.
WITH page AS (
    SELECT mail_json(item) AS document,
           keyed_cursor(to_millis(item.received_at), item.id) AS cursor
      FROM mail AS item
     WHERE item.workspace_id = %(workspace_id)s::uuid
       AND item.user_id = %(user_id)s::uuid
       AND (item.received_at, item.id) < (
               coalesce(from_millis(%(after)s::bigint), 'infinity'),
               coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
           )
     ORDER BY item.received_at DESC, item.id DESC
     LIMIT %(limit)s::integer + 1
)
SELECT page_json(array_agg(document), array_agg(cursor), %(limit)s::integer) AS body,
       next_cursor(array_agg(cursor), %(limit)s::integer) AS next_cursor
  FROM page;
