-- End the deactivation of a user.
UPDATE users
   SET deactivated_at = NULL
 WHERE lower(email) = lower(%(email)s)
RETURNING id;
