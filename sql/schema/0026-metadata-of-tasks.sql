-- Strings of the clients' own on tasks (metadata), and what metadata may contain.

ALTER TABLE tasks ADD COLUMN metadata metadata;
ALTER TABLE tasks ALTER COLUMN metadata SET STORAGE EXTERNAL;

-- sql/functions/values.sql has the text.
CREATE FUNCTION is_metadata(metadata jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS 'BEGIN RETURN true; END';

-- There is no metadata yet, so nothing is left to validate.
ALTER DOMAIN metadata
    ADD CONSTRAINT "metadata must be an object of short strings with short names"
    CHECK (is_metadata(value)) NOT VALID;
ALTER DOMAIN metadata
    ADD CONSTRAINT "metadata must have at most 50 pairs"
    CHECK (jsonb_array_length(jsonb_path_query_array(value, '$.keyvalue()')) <= 50) NOT VALID;
ALTER DOMAIN metadata
    ADD CONSTRAINT "metadata must have at most 16384 bytes of JSON"
    CHECK (octet_length(json_strip_nulls(value::json)::text) <= 16384) NOT VALID;
