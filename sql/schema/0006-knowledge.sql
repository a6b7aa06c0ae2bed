-- Knowledge entries and their full-text index.

-- Return the words of an entry. The id of the workspace is one of them, so that the GIN index
-- narrows a search to the tenant before PostgreSQL reads any row.
CREATE FUNCTION knowledge_words(workspace_id uuid, title text, content text, tags text[])
RETURNS tsvector
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT array_to_tsvector(ARRAY['workspace:' || workspace_id])
        || setweight(to_tsvector('english', title), 'A')
        || setweight(to_tsvector('english', array_to_string(tags, ' ')), 'B')
        || setweight(to_tsvector('english', content), 'C')
$$;

CREATE TABLE knowledge (
    workspace_id uuid NOT NULL
        REFERENCES workspaces (id) ON DELETE CASCADE,
    id uuid NOT NULL DEFAULT new_id(),
    title text NOT NULL
        CONSTRAINT "title must have 1 to 500 characters"
        CHECK (length(title) BETWEEN 1 AND 500),
    content text NOT NULL DEFAULT ''
        CONSTRAINT "content must have at most 65536 characters"
        CHECK (length(content) <= 65536),
    tags text[] NOT NULL DEFAULT '{}'
        CONSTRAINT "tags must be at most 50 of 120 characters"
        CHECK (cardinality(tags) <= 50 AND longest(tags) <= 120),
    created_at timestamp_ms NOT NULL DEFAULT now_ms(),
    updated_at timestamp_ms NOT NULL DEFAULT now_ms(),
    words tsvector NOT NULL
        GENERATED ALWAYS AS (knowledge_words(workspace_id, title, content, tags)) STORED,
    PRIMARY KEY (workspace_id, id)
);

-- Store the column uncompressed. The stored sizes of rows limit the length of a page. Compression
-- would make the stored size smaller than the tags that the page returns.
ALTER TABLE knowledge ALTER COLUMN tags SET STORAGE EXTERNAL;

CREATE INDEX knowledge_by_words ON knowledge USING gin (words);

-- A knowledge entry, as lists show it.
CREATE TYPE knowledge_document AS (
    "id" uuid,
    "title" text,
    "content" text,
    "tags" text[],
    "createdAt" text,
    "updatedAt" text
);

CREATE FUNCTION knowledge_json(entry knowledge) RETURNS json
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
