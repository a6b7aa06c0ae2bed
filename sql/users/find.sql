-- Find users by e-mail addresses and ids, and return each id with the address or id that was given.
-- Ids of deleted users are found too, because they may be authors.
SELECT given.name, person.id
  FROM unnest(%(emails)s::text[]) AS given (name)
  JOIN users AS person ON lower(person.email) = lower(given.name)
 UNION ALL
SELECT given.name, person.id
  FROM unnest(%(ids)s::text[]) AS given (name)
  JOIN (SELECT id FROM users UNION ALL SELECT id FROM deleted_users) AS person
    ON person.id = given.name::uuid;
