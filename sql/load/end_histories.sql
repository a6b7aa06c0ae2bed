-- End the histories of the workspaces that got tasks or meetings, which no event announces: every
-- cursor of their events is gone.
UPDATE feeds AS feed
   SET history = gen_random_uuid()
 WHERE feed.workspace_id = ANY (%(workspace_ids)s::uuid[]);
