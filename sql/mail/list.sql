-- One page of the caller's mail in the active workspace, latest first.
SELECT CASE WHEN fits_page(sum(text_bytes(message)) OVER page) THEN mail_json(message) END AS body,
       keyed_cursor(to_millis(lag(received_at) OVER page), lag(id) OVER page) AS cursor
  FROM mail AS message
 WHERE workspace_id = %(workspace_id)s
   AND user_id = %(user_id)s
   AND (received_at, id) < (
           coalesce(from_millis(%(after)s), 'infinity'),
           coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
       )
WINDOW page AS (ORDER BY received_at DESC, id DESC ROWS UNBOUNDED PRECEDING)
 ORDER BY received_at DESC, id DESC
 LIMIT %(limit)s + 1;
