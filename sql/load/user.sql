-- Insert users, without a workspace yet, in the order of their lines.
-- If a user with this id and this e-mail address exists, the row stays unchanged, because the user
-- also belongs to other workspaces.
INSERT INTO users (id, email, name, created_at, deactivated_at)
SELECT coalesce(id, new_id(coalesce(created_at, clock_timestamp()))),
       email,
       name,
       coalesce(created_at, now_ms()),
       deactivated_at
  FROM json_populate_recordset(NULL::users, %(rows)s) WITH ORDINALITY AS item
 WHERE NOT EXISTS (
           SELECT
             FROM users AS person
            WHERE person.id = item.id
              AND lower(person.email) = lower(item.email)
       )
 ORDER BY ordinality;
