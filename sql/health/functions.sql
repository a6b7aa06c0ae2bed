-- Return the files of functions that the database lacks, or has with another text of an older
-- release.
-- Any text of the same release will do: after another build has replaced the functions, the
-- processes that run still serve. Before a start, the command check compares the texts.
SELECT file.name
  FROM unnest(%(functions)s::text[], %(sha256s)s::text[]) AS file (name, sha256)
 WHERE NOT EXISTS (
           SELECT
             FROM schema_functions
            WHERE name = file.name
              AND (schema_functions.sha256 = file.sha256
                   OR string_to_array(release, '.')::integer[]
                      >= string_to_array(%(release)s, '.')::integer[])
       );
