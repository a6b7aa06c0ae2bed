-- Knowledge entries.

-- Return the words of an entry. The id of the workspace is one of them, so that the GIN index
-- narrows a search to the tenant before PostgreSQL reads any row.
CREATE OR REPLACE FUNCTION knowledge_words(workspace_id uuid, title text, content text, tags text[])
RETURNS tsvector
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT array_to_tsvector(ARRAY['workspace:' || workspace_id])
        || setweight(to_tsvector('english', title), 'A')
        || setweight(to_tsvector('english', array_to_string(tags, ' ')), 'B')
        || setweight(to_tsvector('english', content), 'C')
$$;

-- Return the bytes of the long values of an entry, for fits_page().
CREATE OR REPLACE FUNCTION text_bytes(entry knowledge) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT octet_length(entry.content) + pg_column_size(entry.tags)
$$;

-- A knowledge entry, as lists show it.
CREATE OR REPLACE FUNCTION knowledge_json(entry knowledge) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT row_to_json(
               ROW(
                   entry.id,
                   entry.title,
                   entry.content,
                   entry.tags,
                   iso(entry.created_at),
                   iso(entry.updated_at)
               )::knowledge_document
           )
$$;
