-- Return the last millisecond of each of these days in the timezone of the active workspace.
SELECT to_char(day, 'YYYY-MM-DD') AS day,
       iso(end_of_day(day, %(workspace_id)s)) AS moment
  FROM unnest(%(days)s::date[]) AS day;
