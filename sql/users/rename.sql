-- Change the name of a user.
UPDATE users
   SET name = %(name)s
 WHERE lower(email) = lower(%(email)s)
RETURNING id;
