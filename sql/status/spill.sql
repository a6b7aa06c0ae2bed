-- Write a megabyte to the disk of the database, by a sort that its memory does not hold: a full
-- disk is an error. The memory is set for this statement alone, and before the sort begins.
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
