-- How many dead rows autovacuum has left, the tables for which it is turned off, each with the
-- statement that turns it on, and the tables with more dead rows than live ones.
WITH disabled AS (
    SELECT counted.relname
      FROM pg_stat_user_tables AS counted
      JOIN pg_class AS class ON class.oid = counted.relid
     WHERE class.reloptions && '{autovacuum_enabled=false,autovacuum_enabled=off}'
)
SELECT current_setting('autovacuum')::boolean AND current_setting('track_counts')::boolean
       AS enabled,
       coalesce(sum(n_dead_tup), 0)::bigint AS dead_rows,
       ARRAY(SELECT relname::text FROM disabled ORDER BY relname) AS disabled,
       ARRAY(
           SELECT format('ALTER TABLE %%I RESET (autovacuum_enabled)', relname)
             FROM disabled
            ORDER BY relname
       ) AS remedies,
       coalesce(
           array_agg(relname::text ORDER BY relname)
           FILTER (WHERE n_dead_tup > greatest(n_live_tup, %(dead_rows)s::integer)),
           '{}'
       ) AS bloated
  FROM pg_stat_user_tables;
