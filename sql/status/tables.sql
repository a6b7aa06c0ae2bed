-- The five largest tables, with the size of their indexes included.
SELECT relname::text AS name,
       pg_total_relation_size(relid) AS bytes
  FROM pg_stat_user_tables
 ORDER BY bytes DESC, name
 LIMIT 5;
