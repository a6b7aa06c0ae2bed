-- One page of the pending suggestions of the active workspace, newest first.
WITH page AS (
    SELECT *
      FROM suggestions
     WHERE workspace_id = %(workspace_id)s
       AND status = 'pending'
       AND id < coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
     ORDER BY id DESC
     LIMIT %(limit)s + 1
)
SELECT json_list(
           ARRAY(
               SELECT suggestion_json(page::suggestions)
                 FROM page
                ORDER BY id DESC
                LIMIT length
           )
       ) AS data,
       id_cursor((ARRAY(SELECT id FROM page ORDER BY id DESC))[length]) AS next_cursor
  FROM page_length(
           ARRAY(SELECT text_bytes(page::suggestions) FROM page ORDER BY id DESC),
           %(limit)s
       ) AS length;
