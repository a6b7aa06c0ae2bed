-- For each table that this text changes, return the statement that vacuums the table.
-- A table without rows is left out, as all tables of a new database are.
SELECT format('VACUUM (ANALYZE) %%s', oid::regclass) AS text
  FROM pg_class
 WHERE relkind = 'r'
   AND relnamespace = current_schema()::regnamespace
   AND pg_relation_size(oid) > 0
   AND %(text)s::text ~ ('\m(UPDATE|INSERT INTO|DELETE FROM)\s+' || relname || '\M')
 ORDER BY text;
