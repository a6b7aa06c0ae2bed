-- One page of the knowledge of the active workspace, newest first.
WITH page AS MATERIALIZED (
    SELECT entry.*
      FROM knowledge AS entry
     WHERE entry.workspace_id = %(workspace_id)s::uuid
       AND entry.id < coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
     ORDER BY entry.id DESC
     LIMIT %(limit)s::integer + 1
), page_end AS (
    SELECT last_row(array_agg(bytes ORDER BY id DESC), sum(bytes), %(limit)s::integer) AS number
      FROM (SELECT id, octet_length(content) + pg_column_size(tags) AS bytes FROM page) AS sizes
)
SELECT json_list(
           array_agg(knowledge_json(ROW(entry.*)::knowledge) ORDER BY entry.id DESC)
       ) AS data,
       keyed_cursor(
           0, (array_agg(entry.id ORDER BY entry.id DESC))[(SELECT number FROM page_end)]
       ) AS next_cursor
  FROM (SELECT * FROM page ORDER BY id DESC LIMIT (SELECT number FROM page_end)) AS entry;
