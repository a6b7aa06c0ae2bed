-- Remove the row of a process that ends, or has ended.
DELETE FROM processes WHERE name = %(name)s;
