-- Change the name of a user.
UPDATE users AS person
   SET name = %(name)s
 WHERE lower(person.email) = lower(%(email)s)
RETURNING person.id;
