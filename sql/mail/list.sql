-- One page of the caller's mail in the active workspace, latest first.
WITH page AS MATERIALIZED (
    SELECT item.*
      FROM mail AS item
     WHERE item.workspace_id = %(workspace_id)s::uuid
       AND item.user_id = %(user_id)s::uuid
       AND (item.received_at, item.id) < (
               coalesce(from_millis(%(after)s::bigint), 'infinity'),
               coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
           )
     ORDER BY item.received_at DESC, item.id DESC
     LIMIT %(limit)s::integer + 1
), page_end AS (
    SELECT last_row(
               array_agg(bytes ORDER BY received_at DESC, id DESC), sum(bytes), %(limit)s::integer
           ) AS number
      FROM (
           SELECT received_at, id, octet_length(snippet) + pg_column_size(recipients) AS bytes
             FROM page
           ) AS sizes
)
SELECT json_list(
           array_agg(mail_json(ROW(item.*)::mail) ORDER BY item.received_at DESC, item.id DESC)
       ) AS data,
       (
           array_agg(
               keyed_cursor(to_millis(item.received_at), item.id)
               ORDER BY item.received_at DESC, item.id DESC
           )
       )[(SELECT number FROM page_end)] AS next_cursor
  FROM (
       SELECT * FROM page ORDER BY received_at DESC, id DESC LIMIT (SELECT number FROM page_end)
       ) AS item;
