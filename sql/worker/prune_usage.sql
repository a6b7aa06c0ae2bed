-- Delete the request counts that are older than two days in the next pages of the table, see
-- next_pages(). Without an index by age, updating a count changes no index at all (HOT).
WITH batch AS MATERIALIZED (
    SELECT * FROM next_pages('usage', %(after)s)
), deleted AS (
    DELETE FROM usage
     WHERE ctid >= (SELECT first FROM batch)
       AND ctid < (SELECT beyond FROM batch)
       AND day_started_at < pruning_time() - interval '2 days'
 RETURNING subject
)
SELECT (SELECT count(*) FROM deleted) AS deleted,
       batch.next
  FROM batch;
