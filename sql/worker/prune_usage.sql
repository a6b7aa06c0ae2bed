-- Delete the request counts that are older than two days in the next 128 pages of the table.
-- The table has no index by age, so that updating a count changes no index (HOT).
WITH batch AS (
    SELECT coalesce(nullif(%(after)s::text, ''), '0')::bigint AS first_page
), deleted AS (
    DELETE FROM usage
     WHERE ctid >= (SELECT ('(' || first_page || ',0)')::tid FROM batch)
       AND ctid < (SELECT ('(' || first_page + 128 || ',0)')::tid FROM batch)
       AND day_started_at < now() - interval '2 days'
 RETURNING subject
)
SELECT (SELECT count(*) FROM deleted) AS deleted,
       CASE
           WHEN first_page + 128
                < pg_relation_size('usage') / current_setting('block_size')::integer
           THEN (first_page + 128)::text
       END AS next
  FROM batch;
