-- The last millisecond of a day in the timezone of the active workspace.
SELECT iso(due_moment(%(day)s::text, %(workspace_id)s::uuid)) AS moment;
