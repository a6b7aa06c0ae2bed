-- Return whether any workspace exists.
SELECT EXISTS (SELECT FROM workspaces) AS exists;
