-- One page of the pending suggestions of the active workspace, newest first.
SELECT CASE
           WHEN fits_page(sum(text_bytes(suggestion)) OVER page) THEN suggestion_json(suggestion)
       END AS body,
       id_cursor(lag(id) OVER page) AS cursor
  FROM suggestions AS suggestion
 WHERE workspace_id = %(workspace_id)s
   AND status = 'pending'
   AND id < coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
WINDOW page AS (ORDER BY id DESC ROWS UNBOUNDED PRECEDING)
 ORDER BY id DESC
 LIMIT %(limit)s + 1;
