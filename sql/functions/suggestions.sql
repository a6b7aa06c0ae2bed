-- Suggestions of the AI.

-- A suggestion, as lists and events show it.
CREATE OR REPLACE FUNCTION suggestion_json(suggestion suggestions) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT row_to_json(
               ROW(
                   suggestion.id,
                   suggestion.kind,
                   suggestion.title,
                   suggestion.body,
                   suggestion.task_id,
                   suggestion.status,
                   iso(suggestion.created_at)
               )::suggestion_document
           )
$$;
