-- One page of the knowledge of the active workspace, newest first.
WITH page AS (
    SELECT *
      FROM knowledge
     WHERE workspace_id = %(workspace_id)s
       AND id < coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
     ORDER BY id DESC
     LIMIT %(limit)s + 1
)
SELECT json_list(
           ARRAY(
               SELECT knowledge_json(page::knowledge)
                 FROM page
                ORDER BY id DESC
                LIMIT length
           )
       ) AS data,
       keyed_cursor(0, (ARRAY(SELECT id FROM page ORDER BY id DESC))[length]) AS next_cursor
  FROM page_length(
           ARRAY(SELECT text_bytes(page::knowledge) FROM page ORDER BY id DESC),
           %(limit)s
       ) AS length;
