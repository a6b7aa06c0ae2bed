-- One page of the pending suggestions of the active workspace, newest first.
WITH page AS (
    SELECT suggestion_json(suggestion) AS document,
           replace(suggestion.id::text, '-', '') AS cursor
      FROM suggestions AS suggestion
     WHERE suggestion.workspace_id = %(workspace_id)s::uuid
       AND suggestion.status = 'pending'
       AND suggestion.id < coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
     ORDER BY suggestion.id DESC
     LIMIT %(limit)s::integer + 1
)
SELECT page_json(array_agg(document), array_agg(cursor), %(limit)s::integer) AS body,
       next_cursor(array_agg(cursor), %(limit)s::integer) AS next_cursor
  FROM page;
