-- The users with these e-mail addresses and ids, each with the address or id of the request.
-- The id of a deleted user is found too: it may be that of an author.
SELECT given.name, person.id::text
  FROM unnest(%(emails)s::text[]) AS given (name)
  JOIN users AS person ON lower(person.email) = lower(given.name)
 UNION ALL
SELECT given.name, person.id::text
  FROM unnest(%(ids)s::text[]) AS given (name)
  JOIN users AS person ON person.id = given.name::uuid
 UNION ALL
SELECT given.name, gone.id::text
  FROM unnest(%(ids)s::text[]) AS given (name)
  JOIN deleted_users AS gone ON gone.id = given.name::uuid;
