-- Deactivate a user. A user who was deactivated earlier keeps that time.
-- The lock waits for statements that assign tasks to the user, so the time is later than these
-- tasks.
WITH locked AS MATERIALIZED (
    SELECT id
      FROM users
     WHERE lower(email) = lower(%(email)s)
       FOR NO KEY UPDATE
)
UPDATE users AS person
   SET deactivated_at = coalesce(
           person.deactivated_at,
           date_trunc('milliseconds', now() + (clock_timestamp() - transaction_timestamp()))
       )
  FROM locked
 WHERE person.id = locked.id
RETURNING person.id;
