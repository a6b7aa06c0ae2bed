-- Delete up to 1000 Idempotency-Keys that are older than a day. The index by age finds them.
WITH deleted AS (
    DELETE FROM idempotency_keys
     WHERE ctid = ANY (
               ARRAY(
                   SELECT ctid
                     FROM idempotency_keys
                    WHERE created_at < pruning_time() - interval '24 hours'
                    LIMIT 1000
               )
           )
       -- The condition is repeated because another transaction may have renewed the row meanwhile.
       AND created_at < pruning_time() - interval '24 hours'
 RETURNING key
)
SELECT count(*) AS deleted,
       CASE WHEN count(*) = 1000 THEN '' END AS next
  FROM deleted;
