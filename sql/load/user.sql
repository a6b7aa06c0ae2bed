-- Insert users, without a workspace yet, in the order of their lines. A user who is there already,
-- with this id and e-mail address, stays unchanged: the user has other workspaces too.
INSERT INTO users (id, email, name, created_at, deactivated_at)
SELECT coalesce(item.id, new_id(coalesce(item.created_at, clock_timestamp()))),
       item.email,
       item.name,
       coalesce(item.created_at, now_ms()),
       item.deactivated_at
  FROM json_populate_recordset(NULL::users, %(rows)s::json) WITH ORDINALITY AS item
 WHERE NOT EXISTS (
           SELECT
             FROM users AS person
            WHERE person.id = item.id
              AND lower(person.email) = lower(item.email)
       )
 ORDER BY item.ordinality;
