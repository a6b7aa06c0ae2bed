-- Find the user with this e-mail address, unless deactivated, for a login page.
SELECT person.id
  FROM users AS person
 WHERE lower(person.email) = lower(%(email)s)
   AND person.deactivated_at IS NULL;
