-- Whether there is any data yet.
SELECT EXISTS (SELECT FROM workspaces) AS exists;
