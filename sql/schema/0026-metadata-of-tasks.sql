-- Strings of the clients' own on tasks (metadata), and what metadata may contain.

ALTER TABLE tasks ADD COLUMN metadata metadata;
ALTER TABLE tasks ALTER COLUMN metadata SET STORAGE EXTERNAL;

-- sql/functions/values.sql has the text.
CREATE FUNCTION is_metadata(metadata jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS 'BEGIN RETURN true; END';

-- There is no metadata yet, so nothing is left to validate. The function has all limits, because
-- PostgreSQL prepares each check of a domain for every statement that writes a row.
ALTER DOMAIN metadata
    ADD CONSTRAINT "metadata must be an object of short strings with short names"
    CHECK (is_metadata(value)) NOT VALID;
