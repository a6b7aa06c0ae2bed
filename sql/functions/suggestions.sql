-- Suggestions of the AI.

-- Return the bytes of the long values of a suggestion, for fits_page().
CREATE OR REPLACE FUNCTION text_bytes(suggestion suggestions) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT octet_length(suggestion.body)
$$;

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
