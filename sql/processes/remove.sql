-- Remove the row of a process that is ending, or has ended.
DELETE FROM processes WHERE name = %(name)s;
