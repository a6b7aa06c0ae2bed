-- One page of the knowledge of the active workspace that matches the search, best first.
-- The rank is a whole number of millionths, so that a cursor can say exactly where a page ended.
-- All matches must be ranked before the best are known, so only rank and id are carried along.
WITH found AS MATERIALIZED (
    SELECT entry.id,
           (ts_rank(entry.words, wanted) * 1000000)::bigint AS rank
      FROM websearch_to_tsquery('english', %(q)s::text) AS wanted
      JOIN knowledge AS entry
        ON entry.words @@ (wanted && quote_literal('workspace:' || %(workspace_id)s::uuid)::tsquery)
     WHERE entry.workspace_id = %(workspace_id)s::uuid
       AND numnode(wanted) > 0
), best AS (
    SELECT found.rank, found.id
      FROM found
     WHERE (found.rank, found.id) < (
               coalesce(%(after)s::bigint, 9223372036854775807),
               coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
           )
     ORDER BY found.rank DESC, found.id DESC
     LIMIT %(limit)s::integer + 1
), page AS (
    SELECT knowledge_json(entry) AS document,
           keyed_cursor(best.rank, best.id) AS cursor
      FROM best
      JOIN knowledge AS entry
        ON entry.workspace_id = %(workspace_id)s::uuid AND entry.id = best.id
     ORDER BY best.rank DESC, best.id DESC
)
SELECT page_json(array_agg(document), array_agg(cursor), %(limit)s::integer) AS body,
       next_cursor(array_agg(cursor), %(limit)s::integer) AS next_cursor
  FROM page;
