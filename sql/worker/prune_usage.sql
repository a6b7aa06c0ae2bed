-- Delete the request counts of the next 128 pages of the table that are older than two days.
-- The table has no index by age, so that an update of a count stays in place (HOT).
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
