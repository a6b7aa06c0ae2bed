-- The tables, sequences and functions of the service that are missing or that this role may not
-- use, or the schema of all of them, if this role may not use it. Types are not checked, because
-- every role may use them.
WITH wanted AS (
    SELECT 'table' AS kind, unnest(%(tables)s::text[]) AS name
     UNION ALL
    SELECT 'sequence', unnest(%(sequences)s::text[])
), known AS (
    SELECT wanted.kind,
           wanted.name,
           class.oid,
           class.relowner AS owner,
           class.relnamespace AS schema_oid
      FROM wanted
      LEFT JOIN pg_class AS class ON class.oid = to_regclass(quote_ident(wanted.name))
), unusable AS (
    SELECT kind, name, owner
      FROM known
     WHERE oid IS NULL
        OR NOT CASE kind
               WHEN 'sequence'
               THEN has_sequence_privilege(oid, 'USAGE')
                    AND has_sequence_privilege(oid, 'SELECT')
               ELSE has_table_privilege(oid, 'SELECT')
                    AND has_table_privilege(oid, 'INSERT')
                    AND has_table_privilege(oid, 'UPDATE')
                    AND has_table_privilege(oid, 'DELETE')
           END
     -- UNION, because several functions have one name.
     UNION
    -- If all tables exist but a function is missing, an earlier build has created the database.
    SELECT 'function', wanted.name, function.proowner
      FROM unnest(%(functions)s::text[]) AS wanted (name)
      LEFT JOIN pg_proc AS function
        ON function.proname = wanted.name
       AND function.pronamespace = ANY (ARRAY(SELECT schema_oid FROM known))
     WHERE CASE
               WHEN function.oid IS NULL
               THEN NOT EXISTS (SELECT FROM known WHERE known.oid IS NULL)
               ELSE NOT has_function_privilege(function.oid, 'EXECUTE')
           END
     UNION ALL
    -- If a role lacks USAGE on a schema, all tables in the schema seem to be missing.
    SELECT 'schema', schema.nspname, schema.nspowner
      FROM pg_class AS class
      JOIN pg_namespace AS schema ON schema.oid = class.relnamespace
     WHERE class.relname = ANY (%(tables)s::text[])
       AND NOT has_schema_privilege(schema.oid, 'USAGE')
       AND NOT EXISTS (SELECT FROM known WHERE known.oid IS NOT NULL)
     GROUP BY schema.oid
    HAVING count(*) = cardinality(%(tables)s::text[])
)
SELECT kind, name, pg_get_userbyid(owner)::text AS owner
  FROM unusable
 ORDER BY kind DESC, name;
