-- Delete the versions of objects that were deleted over 400 days ago, in the next pages of the
-- table, see next_pages().
WITH batch AS MATERIALIZED (
    SELECT * FROM next_pages('deleted_versions', %(after)s)
), pruned AS (
    DELETE FROM deleted_versions
     WHERE ctid >= (SELECT first FROM batch)
       AND ctid < (SELECT beyond FROM batch)
       AND deleted_at < pruning_time() - interval '400 days'
 RETURNING id
)
SELECT (SELECT count(*) FROM pruned) AS deleted,
       batch.next
  FROM batch;
