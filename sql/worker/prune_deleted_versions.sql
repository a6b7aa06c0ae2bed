-- Delete the versions of objects that were deleted over 400 days ago, in the next 128 pages of the
-- table. The table has no index by age, so that a deletion costs less.
WITH batch AS (
    SELECT coalesce(nullif(%(after)s::text, ''), '0')::bigint AS first_page
), pruned AS (
    DELETE FROM deleted_versions
     WHERE ctid >= (SELECT ('(' || first_page || ',0)')::tid FROM batch)
       AND ctid < (SELECT ('(' || first_page + 128 || ',0)')::tid FROM batch)
       AND deleted_at < now() - interval '400 days'
 RETURNING id
)
SELECT (SELECT count(*) FROM pruned) AS deleted,
       CASE
           WHEN first_page + 128
                < pg_relation_size('deleted_versions') / current_setting('block_size')::integer
           THEN (first_page + 128)::text
       END AS next
  FROM batch;
