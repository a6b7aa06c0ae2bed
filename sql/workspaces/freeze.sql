-- Freeze a workspace for requests, once the writes that run have ended; NULL as moves_to ends this.
UPDATE workspaces
   SET moves_to = %(moves_to)s,
       has_moved = %(has_moved)s
 WHERE id = (SELECT lock_workspace(id) FROM workspaces WHERE slug = %(slug)s)
RETURNING id;
