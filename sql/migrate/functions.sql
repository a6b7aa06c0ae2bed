-- Of these files of functions, return the ones to apply: their text differs from the applied text.
-- A text of a newer release stays, because it serves this release as well.
SELECT file.name
  FROM unnest(%(functions)s::text[], %(sha256s)s::text[]) WITH ORDINALITY
       AS file (name, sha256, number)
 WHERE NOT EXISTS (
           SELECT
             FROM schema_functions
            WHERE name = file.name
              AND (sha256 = file.sha256
                   OR string_to_array(release, '.')::integer[]
                      > string_to_array(%(release)s, '.')::integer[])
       )
 ORDER BY file.number;
