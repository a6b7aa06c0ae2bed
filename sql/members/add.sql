-- Add a user to a workspace; create the user, unless the user exists or the name is NULL.
SELECT permitted, can_join, id, body
  FROM add_member(%(id)s, %(email)s, %(name)s, %(role)s, %(token_id)s)
 WHERE permitted IS NOT NULL;
