-- The id of a meeting is unique in its workspace, as the id of a task is: clients choose ids, and
-- the meetings of another workspace must not decide which ids are free.
-- The primary key (workspace_id, id) remains. A request looks for an id in each workspace of the
-- caller, and so uses that key.
-- Release 1.1.0 expects at most one meeting. Where a user belongs to two workspaces that have a
-- meeting with the same id, it answers 500 for this id to this user, and a PATCH or a DELETE of it
-- concerns both meetings.

-- squawk-ignore ban-drop-constraint
ALTER TABLE meetings DROP CONSTRAINT "id is taken by another meeting";
