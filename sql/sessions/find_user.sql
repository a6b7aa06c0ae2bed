-- Find the user with this e-mail address, unless deactivated, for a login page.
SELECT id
  FROM users
 WHERE lower(email) = lower(%(email)s)
   AND deactivated_at IS NULL;
