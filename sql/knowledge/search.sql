-- One page of the knowledge of the active workspace that matches the search, best first.
-- If more than 5 000 entries match, the newest come first, because ranking all of them would take
-- too long.
-- A rank is an integer of at least 1, so that a cursor contains it exactly. If the newest come
-- first, the rank is 0. So the cursor tells which order the first page had, and later pages keep
-- that order even if the number of matches changes.
WITH query AS MATERIALIZED (
    SELECT words,
           words && quote_literal('workspace:' || %(workspace_id)s::uuid)::tsquery AS words_here
      -- PostgreSQL fails if 33 minus signs precede a word. This removes any three or more of them.
      FROM websearch_to_tsquery(
               'english',
               regexp_replace(%(q)s, '-([\s!&|()"]*-){2,}', ' ', 'g')
           ) AS words
     WHERE numnode(words) > 0
), matches AS MATERIALIZED (
    SELECT entry.id, entry.words
      FROM query
      JOIN knowledge AS entry ON entry.words @@ query.words_here
     WHERE entry.workspace_id = %(workspace_id)s
     LIMIT CASE
               WHEN %(after)s::bigint IS NULL THEN 5001
               WHEN %(after)s = 0 THEN 0
           END
), ranked AS (
    SELECT greatest(1, (ts_rank(matches.words, query.words) * 1000000)::bigint) AS rank, matches.id
      FROM query
     CROSS JOIN matches
     WHERE %(after)s > 0 OR (SELECT count(*) FROM matches) <= 5000
), newest AS (
    SELECT 0 AS rank, entry.id
      FROM query
     CROSS JOIN knowledge AS entry
     WHERE entry.workspace_id = %(workspace_id)s
       AND entry.id < coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
       -- IS TRUE keeps PostgreSQL from using the index of words. With so many matches, it finds the
       -- next ones sooner by scanning the primary key.
       AND (entry.words @@ query.words_here) IS TRUE
       AND (%(after)s = 0
            OR (%(after)s IS NULL AND (SELECT count(*) FROM matches) > 5000))
     ORDER BY entry.id DESC
     LIMIT %(limit)s + 1
), best AS (
    SELECT rank, id
      FROM ranked
     WHERE (rank, id) < (
               coalesce(%(after)s, 9223372036854775807),
               coalesce(%(after_id)s, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
           )
     UNION ALL
    SELECT rank, id
      FROM newest
     ORDER BY rank DESC, id DESC
     LIMIT %(limit)s + 1
)
SELECT CASE WHEN fits_page(sum(text_bytes(entry)) OVER page) THEN knowledge_json(entry) END AS body,
       keyed_cursor(lag(rank) OVER page, lag(entry.id) OVER page) AS cursor
  FROM best
  JOIN knowledge AS entry ON entry.workspace_id = %(workspace_id)s AND entry.id = best.id
WINDOW page AS (ORDER BY rank DESC, entry.id DESC ROWS UNBOUNDED PRECEDING)
 ORDER BY rank DESC, entry.id DESC;
