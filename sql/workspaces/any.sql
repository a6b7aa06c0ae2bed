-- Return whether a workspace exists.
SELECT EXISTS (SELECT FROM workspaces) AS exists;
