-- Write a megabyte to the disk of the database, so that a full disk raises an error.
-- A sort that does not fit into work_mem writes it. work_mem is lowered before the sort begins, and
-- for this transaction only.
WITH little AS MATERIALIZED (
    SELECT set_config('work_mem', '64kB', true) AS memory
)
SELECT sorted.rows
  FROM little
 CROSS JOIN LATERAL (
       SELECT count(*) AS rows
         FROM (
                  SELECT repeat(md5(number::text), 8) AS filler
                    FROM generate_series(1, 4096) AS number
                   WHERE little.memory IS NOT NULL
                   ORDER BY filler
              ) AS spilled
       ) AS sorted;
