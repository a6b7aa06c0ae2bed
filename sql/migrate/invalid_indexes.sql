-- For each invalid index that this text names, return the statement that drops the index.
-- An interrupted CREATE INDEX CONCURRENTLY leaves an invalid index.
SELECT format('DROP INDEX CONCURRENTLY IF EXISTS %%s', index.indexrelid::regclass) AS text
  FROM pg_index AS index
  JOIN pg_class AS class ON class.oid = index.indexrelid
 WHERE NOT index.indisvalid
   AND class.relnamespace = current_schema()::regnamespace
   AND %(text)s::text ~ ('\m' || class.relname || '\M');
