-- Delete the task counts that are zero on the next 128 pages of the table.
-- The table has no index by count, so that an update of a count stays in place (HOT).
WITH batch AS (
    SELECT coalesce(nullif(%(after)s::text, ''), '0')::bigint AS first_page
), deleted AS (
    DELETE FROM task_counts
     WHERE ctid >= (SELECT ('(' || first_page || ',0)')::tid FROM batch)
       AND ctid < (SELECT ('(' || first_page + 128 || ',0)')::tid FROM batch)
       AND total = 0
 RETURNING slot
)
SELECT (SELECT count(*) FROM deleted) AS deleted,
       CASE
           WHEN first_page + 128
                < pg_relation_size('task_counts') / current_setting('block_size')::integer
           THEN (first_page + 128)::text
       END AS next
  FROM batch;
