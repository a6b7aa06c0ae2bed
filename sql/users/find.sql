-- The users with these e-mail emails and these ids, each beside what it was asked for by.
SELECT wanted.name, person.id::text
  FROM unnest(%(emails)s::text[]) AS wanted (name)
  JOIN users AS person ON lower(person.email) = lower(wanted.name)
 UNION ALL
SELECT wanted.name, person.id::text
  FROM unnest(%(ids)s::text[]) AS wanted (name)
  JOIN users AS person ON person.id = wanted.name::uuid;
