-- Return the files of functions that the database lacks or has from an older release.
-- Any text of the same release will do: after another build has replaced the functions, the
-- processes that run still serve. Before a start, the command check compares the texts.
SELECT file.name
  FROM unnest(%(functions)s::text[]) AS file (name)
 WHERE NOT EXISTS (
           SELECT
             FROM schema_functions
            WHERE name = file.name
              AND string_to_array(release, '.')::integer[]
                  >= string_to_array(%(release)s, '.')::integer[]
       );
