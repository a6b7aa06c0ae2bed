-- Deactivate a user; a user who was deactivated earlier keeps its timestamp. That is of the moment
-- when all tasks that were assigned to the user meanwhile are there: it is later than they are.
WITH locked AS MATERIALIZED (
    SELECT person.id
      FROM users AS person
     WHERE lower(person.email) = lower(%(email)s)
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
