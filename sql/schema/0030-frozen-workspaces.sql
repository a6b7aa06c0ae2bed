-- An operator freezes a workspace that moves to another installation.

-- NULL if requests may write in the workspace. Otherwise the URL of the other installation, or ''.
ALTER TABLE workspaces ADD COLUMN moves_to text;
-- Whether requests in a frozen workspace may not even read.
ALTER TABLE workspaces ADD COLUMN has_moved boolean NOT NULL DEFAULT false;
