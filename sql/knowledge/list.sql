-- One page of the knowledge of the active workspace, newest first.
WITH page AS (
    SELECT knowledge_json(entry) AS document,
           keyed_cursor(0, entry.id) AS cursor
      FROM knowledge AS entry
     WHERE entry.workspace_id = %(workspace_id)s::uuid
       AND entry.id < coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
     ORDER BY entry.id DESC
     LIMIT %(limit)s::integer + 1
)
SELECT page_json(array_agg(document), array_agg(cursor), %(limit)s::integer) AS body,
       next_cursor(array_agg(cursor), %(limit)s::integer) AS next_cursor
  FROM page;
