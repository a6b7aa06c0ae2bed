-- Return the last millisecond of a day in the timezone of the active workspace.
SELECT iso(end_of_day(%(day)s::date, %(workspace_id)s::uuid)) AS moment;
