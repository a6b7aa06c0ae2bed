-- For each invalid index that this statement creates, return the statement that drops the index.
-- An interrupted CREATE INDEX CONCURRENTLY leaves an invalid index, whose name may be quoted.
-- An operator's own index whose name is some other word of the text stays.
SELECT format('DROP INDEX CONCURRENTLY IF EXISTS %%s', indexrelid::regclass) AS text
  FROM pg_index
  JOIN pg_class ON pg_class.oid = indexrelid
 CROSS JOIN LATERAL regexp_match(
           regexp_replace(%(text)s::text, '--[^\n]*', '', 'g'),
           '\mCREATE\s+(?:UNIQUE\s+)?INDEX\s+CONCURRENTLY\s+IF\s+NOT\s+EXISTS\s+(?:"([^"]+)"|(\w+))'
       ) AS created (name)
 WHERE NOT indisvalid
   AND relnamespace = current_schema()::regnamespace
   AND relname = coalesce(created.name[1], created.name[2]);
