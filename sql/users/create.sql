-- Create a user, without a workspace yet.
INSERT INTO users (email, name)
VALUES (%(email)s, %(name)s)
RETURNING id;
