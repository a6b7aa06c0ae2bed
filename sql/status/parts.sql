-- Return the columns, indexes and triggers of the given tables that are missing or do not work. An
-- index is invalid if its creation failed, and a trigger may be disabled.
-- If a whole table is missing, its parts are not listed: status/unusable reports the table.
WITH wanted AS (
    SELECT kind, table_name, name, to_regclass(quote_ident(table_name)) AS table_oid
      FROM jsonb_each(%(tables)s) AS wanted_table (table_name, parts)
     CROSS JOIN jsonb_each(parts) AS part (kind, names)
     CROSS JOIN jsonb_array_elements_text(names) AS name
)
SELECT kind, table_name, name
  FROM wanted
 WHERE table_oid IS NOT NULL
   AND NOT CASE kind
           WHEN 'column'
           THEN EXISTS (
                    SELECT
                      FROM pg_attribute AS attribute
                     WHERE attribute.attrelid = table_oid
                       AND attribute.attname = wanted.name
                       AND attribute.attnum > 0
                       AND NOT attribute.attisdropped
                )
           WHEN 'index'
           THEN EXISTS (
                    SELECT
                      FROM pg_index AS index
                      JOIN pg_class AS class ON class.oid = index.indexrelid
                     WHERE index.indrelid = table_oid
                       AND class.relname = wanted.name
                       AND index.indisvalid
                )
           ELSE EXISTS (
                    SELECT
                      FROM pg_trigger AS trigger
                     WHERE trigger.tgrelid = table_oid
                       AND trigger.tgname = wanted.name
                       AND trigger.tgenabled IN ('O', 'A')
                )
       END
 ORDER BY kind, table_name, name;
