-- Return the columns, indexes, triggers and constraints of the given tables that are missing or do
-- not work. An index is invalid if its creation failed, and a trigger may be disabled.
-- If a whole table is missing, its parts are not listed: status/unusable reports the table. Neither
-- are those of a table that a view hides, as dev --limits off hides plans.
WITH wanted AS (
    SELECT kind, table_name, name, to_regclass(quote_ident(table_name))::oid AS table_oid
      FROM jsonb_each(%(tables)s) AS wanted_table (table_name, parts)
     CROSS JOIN jsonb_each(parts) AS part (kind, names)
     CROSS JOIN jsonb_array_elements_text(names) AS name
)
SELECT kind, table_name, name
  FROM wanted
 WHERE (SELECT relkind FROM pg_class WHERE oid = table_oid) = 'r'
   AND (kind, table_oid, name) NOT IN (
           SELECT 'column', attrelid, attname::text
             FROM pg_attribute
            WHERE attnum > 0
              AND NOT attisdropped
            UNION ALL
           SELECT 'index', indrelid, class.relname::text
             FROM pg_index
             JOIN pg_class AS class ON class.oid = indexrelid
            WHERE indisvalid
            UNION ALL
           SELECT 'trigger', tgrelid, tgname::text
             FROM pg_trigger
            WHERE tgenabled IN ('O', 'A')
            UNION ALL
           SELECT 'constraint', conrelid, conname::text
             FROM pg_constraint AS one
            WHERE conrelid <> 0
              -- PostgreSQL compares a foreign key by triggers of its own.
              AND NOT EXISTS (
                      SELECT
                        FROM pg_trigger
                       WHERE tgconstraint = one.oid
                         AND tgenabled NOT IN ('O', 'A')
                  )
            UNION ALL
           -- A column also has the constraints of its domain.
           SELECT 'constraint', attrelid, conname::text
             FROM pg_constraint
             JOIN pg_attribute ON atttypid = contypid
            WHERE attnum > 0
              AND NOT attisdropped
       )
 ORDER BY kind, table_name, name;
