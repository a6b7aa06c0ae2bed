-- Delete the tokens and sessions that expired or were revoked more than 90 days ago, in the next
-- pages of the table, see next_pages(). Until then, token list still shows whose credential a log
-- line names.
-- A token that another transaction is just revoking or deleting is left to the next round.
WITH batch AS MATERIALIZED (
    SELECT * FROM next_pages('tokens', %(after)s)
), dead AS MATERIALIZED (
    SELECT id
      FROM tokens
     WHERE ctid >= (SELECT first FROM batch)
       AND ctid < (SELECT beyond FROM batch)
       AND least(expires_at, revoked_at) < pruning_time() - interval '90 days'
       FOR UPDATE SKIP LOCKED
), deleted AS (
    DELETE FROM tokens AS token
     USING dead
     WHERE token.id = dead.id
 RETURNING token.id
)
SELECT (SELECT count(*) FROM deleted) AS deleted,
       batch.next
  FROM batch;
