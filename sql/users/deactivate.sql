-- Deactivate a user, and return the time. A user who was deactivated earlier keeps that time, and
-- then NULL is returned.
WITH deactivated AS (
    UPDATE users
       SET deactivated_at = date_trunc(
               'milliseconds', now() + (clock_timestamp() - transaction_timestamp())
           )
     WHERE lower(email) = lower(%(email)s)
       AND deactivated_at IS NULL
 RETURNING id, deactivated_at::text AS since
)
SELECT id, since
  FROM users
  LEFT JOIN deactivated USING (id)
 WHERE lower(email) = lower(%(email)s);
