-- Create the user with this e-mail address, unless the user exists, for an owner or admin of a
-- workspace. Return the id of a new user.
-- If another transaction is creating the same user, the statement waits for it.
INSERT INTO users (email, name)
SELECT %(email)s, coalesce(%(name)s, split_part(%(email)s, '@', 1))
 WHERE acting_role(%(user_id)s, %(token_workspace_id)s, %(id)s)
       IN ('owner', 'admin')
    ON CONFLICT (lower(email)) DO NOTHING
RETURNING id;
