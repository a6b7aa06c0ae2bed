-- Megabytes and dead rows of the tables that are written again and again.
SELECT tables.name,
       pg_total_relation_size(tables.name::regclass) / 1048576.0 AS megabytes,
       pg_stat_get_live_tuples(tables.name::regclass) AS alive,
       pg_stat_get_dead_tuples(tables.name::regclass) AS dead
  FROM unnest(ARRAY['usage', 'task_counts', 'events', 'deliveries', 'attempts'])
       WITH ORDINALITY AS tables (name, place)
 ORDER BY tables.place;
