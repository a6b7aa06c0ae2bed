-- Deactivate a user; a user who was deactivated earlier keeps its timestamp.
UPDATE users AS person
   SET deactivated_at = coalesce(person.deactivated_at, now_ms())
 WHERE lower(person.email) = lower(%(email)s)
RETURNING person.id;
