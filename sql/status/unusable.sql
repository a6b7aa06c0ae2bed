-- The tables of the service that are missing, and those that this role may not read and change.
SELECT wanted.name,
       pg_get_userbyid(class.relowner)::text AS owner
  FROM unnest(%(tables)s::text[]) AS wanted (name)
  LEFT JOIN pg_class AS class ON class.oid = to_regclass(quote_ident(wanted.name))
 WHERE class.oid IS NULL
    OR NOT (
           has_table_privilege(class.oid, 'SELECT')
           AND has_table_privilege(class.oid, 'INSERT')
           AND has_table_privilege(class.oid, 'UPDATE')
           AND has_table_privilege(class.oid, 'DELETE')
       )
 ORDER BY wanted.name;
