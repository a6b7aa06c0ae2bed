-- One page of the knowledge of the active workspace that matches the search, best first.
-- Only the newest thousand matches are ranked; the older ones follow them, newest first, with the rank 0:
-- so a word that is in every entry costs little more than one that is in few.
-- The rank is a whole number of millionths, so that a cursor can say exactly where a page ended.
WITH newest AS MATERIALIZED (
    SELECT entry.id, entry.words
      FROM knowledge AS entry
     WHERE entry.workspace_id = %(workspace_id)s::uuid
       AND entry.words @@ knowledge_query(%(workspace_id)s::uuid, %(q)s::text)
     ORDER BY entry.id DESC
     LIMIT 1000
), ranked AS (
    SELECT (ts_rank(newest.words, wanted) * 1000000)::bigint AS rank, newest.id
      FROM newest, websearch_to_tsquery('english', %(q)s::text) AS wanted
), near AS MATERIALIZED (
    SELECT ranked.rank, ranked.id
      FROM ranked
     WHERE (ranked.rank, ranked.id) < (
               coalesce(%(after)s::bigint, 9223372036854775807),
               coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
           )
     ORDER BY ranked.rank DESC, ranked.id DESC
     LIMIT %(limit)s::integer + 1
), far AS (
    SELECT 0 AS rank, entry.id
      FROM knowledge AS entry
     WHERE entry.workspace_id = %(workspace_id)s::uuid
       AND entry.words @@ knowledge_query(%(workspace_id)s::uuid, %(q)s::text)
       AND entry.id < (
               SELECT least(newest.id, CASE WHEN %(after)s::bigint = 0 THEN %(after_id)s::uuid END)
                 FROM newest
                ORDER BY newest.id DESC
               OFFSET 999
           )
       -- Nobody looks so far while the page is full without them.
       AND (SELECT count(*) FROM near) <= %(limit)s::integer
     ORDER BY entry.id DESC
     LIMIT %(limit)s::integer + 1
), best AS (
    SELECT rank, id FROM near
     UNION ALL
    SELECT rank, id FROM far
     ORDER BY rank DESC, id DESC
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
