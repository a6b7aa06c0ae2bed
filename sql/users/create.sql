-- Create a user who belongs to no workspace.
INSERT INTO users (email, name)
VALUES (%(email)s, %(name)s)
RETURNING id;
