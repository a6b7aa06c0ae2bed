-- One page of the caller's mail in the active workspace, latest first.
WITH page AS (
    SELECT *
      FROM mail
     WHERE workspace_id = %(workspace_id)s
       AND user_id = %(user_id)s
       AND (received_at, id) < (
               coalesce(from_millis(%(after)s), 'infinity'),
               coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
           )
     ORDER BY received_at DESC, id DESC
     LIMIT %(limit)s + 1
)
SELECT json_list(
           ARRAY(
               SELECT mail_json(page::mail)
                 FROM page
                ORDER BY received_at DESC, id DESC
                LIMIT length
           )
       ) AS data,
       (
           ARRAY(
               SELECT keyed_cursor(to_millis(received_at), id)
                 FROM page
                ORDER BY received_at DESC, id DESC
           )
       )[length] AS next_cursor
  FROM page_length(
           ARRAY(SELECT text_bytes(page::mail) FROM page ORDER BY received_at DESC, id DESC),
           %(limit)s
       ) AS length;
