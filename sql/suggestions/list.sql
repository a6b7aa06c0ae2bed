-- One page of the pending suggestions of the active workspace, newest first.
WITH page AS MATERIALIZED (
    SELECT suggestion.*
      FROM suggestions AS suggestion
     WHERE suggestion.workspace_id = %(workspace_id)s::uuid
       AND suggestion.status = 'pending'
       AND suggestion.id < coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
     ORDER BY suggestion.id DESC
     LIMIT %(limit)s::integer + 1
), page_end AS (
    SELECT last_row(array_agg(bytes ORDER BY id DESC), sum(bytes), %(limit)s::integer) AS number
      FROM (SELECT id, octet_length(body) AS bytes FROM page) AS sizes
)
SELECT json_list(
           array_agg(suggestion_json(ROW(suggestion.*)::suggestions) ORDER BY suggestion.id DESC)
       ) AS data,
       id_cursor(
           (array_agg(suggestion.id ORDER BY suggestion.id DESC))[(SELECT number FROM page_end)]
       ) AS next_cursor
  FROM (SELECT * FROM page ORDER BY id DESC LIMIT (SELECT number FROM page_end)) AS suggestion;
