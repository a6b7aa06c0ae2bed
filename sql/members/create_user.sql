-- Create the user with this e-mail address unless there is one, for a manager of a workspace.
-- The statement waits for another one that creates the same user.
INSERT INTO users (email, name)
SELECT %(email)s::text, coalesce(%(name)s::text, split_part(%(email)s::text, '@', 1))
 WHERE manages(%(user_id)s::uuid, %(id)s::uuid)
    ON CONFLICT (lower(email)) DO NOTHING;
