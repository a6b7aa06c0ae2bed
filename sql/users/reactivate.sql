-- End the deactivation of a user.
UPDATE users AS person
   SET deactivated_at = NULL
 WHERE lower(person.email) = lower(%(email)s)
RETURNING person.id;
