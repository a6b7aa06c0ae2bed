-- Whether there is a workspace yet.
SELECT EXISTS (SELECT FROM workspaces) AS exists;
