-- One page of the knowledge of the active workspace, newest first.
SELECT CASE WHEN fits_page(sum(text_bytes(entry)) OVER page) THEN knowledge_json(entry) END AS body,
       keyed_cursor(0, lag(id) OVER page) AS cursor
  FROM knowledge AS entry
 WHERE workspace_id = %(workspace_id)s
   AND id < coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
WINDOW page AS (ORDER BY id DESC ROWS UNBOUNDED PRECEDING)
 ORDER BY id DESC
 LIMIT %(limit)s + 1;
