-- For each table that this text changes, return the statement that vacuums the table.
-- A table without rows is left out, as all tables of a new database are.
SELECT format('VACUUM (ANALYZE) %%s', class.oid::regclass) AS text
  FROM pg_class AS class
 WHERE class.relkind = 'r'
   AND class.relnamespace = current_schema()::regnamespace
   AND pg_relation_size(class.oid) > 0
   AND %(text)s::text ~ ('\m(UPDATE|INSERT INTO|DELETE FROM)\s+' || class.relname || '\M')
 ORDER BY text;
