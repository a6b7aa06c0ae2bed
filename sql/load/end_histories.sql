-- Begin a new history of events in the workspaces that got tasks or meetings.
-- No events announce the loaded tasks and meetings, so every cursor of these workspaces must become
-- invalid: its reader then lists everything again.
UPDATE feeds
   SET history = gen_random_uuid()
 WHERE workspace_id = ANY (%(workspace_ids)s::uuid[]);
