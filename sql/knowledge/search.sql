-- One page of the knowledge of the active workspace that matches the search, best first.
-- The rank is a whole number of millionths, so that a cursor can say exactly where a page ended.
WITH found AS (
    SELECT entry,
           (ts_rank(entry.words, wanted) * 1000000)::bigint AS rank
      FROM websearch_to_tsquery('english', %(q)s::text) AS wanted
      JOIN knowledge AS entry
        ON entry.words @@ (wanted && quote_literal('workspace:' || %(workspace_id)s::uuid)::tsquery)
     WHERE entry.workspace_id = %(workspace_id)s::uuid
       AND numnode(wanted) > 0
), page AS (
    SELECT knowledge_json(entry) AS document,
           keyed_cursor(rank, (entry).id) AS cursor
      FROM found
     WHERE (rank, (entry).id) < (
               coalesce(%(after)s::bigint, 9223372036854775807),
               coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
           )
     ORDER BY rank DESC, (entry).id DESC
     LIMIT %(limit)s::integer + 1
)
SELECT page_json(array_agg(document), array_agg(cursor), %(limit)s::integer) AS body,
       next_cursor(array_agg(cursor), %(limit)s::integer) AS next_cursor
  FROM page;
