-- Create the user with this e-mail address unless there is one, for a manager of a workspace.
-- Return the id of a new user. The statement waits for another one that creates the same user.
INSERT INTO users (email, name)
SELECT %(email)s::text, coalesce(%(name)s::text, split_part(%(email)s::text, '@', 1))
 WHERE acting_role(%(user_id)s::uuid, %(token_workspace_id)s::uuid, %(id)s::uuid)
       IN ('owner', 'admin')
    ON CONFLICT (lower(email)) DO NOTHING
RETURNING id;
