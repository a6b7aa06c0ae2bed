-- Let no first reader of a feed wait for this transaction: it announces only suggestions, and locks
-- their workspaces. await_older_releases() looks for this lock of the nil workspace.
SELECT share_workspace('00000000-0000-0000-0000-000000000000');
