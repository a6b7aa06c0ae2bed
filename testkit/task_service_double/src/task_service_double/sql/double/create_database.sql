-- Return the statement that creates a database with this name and these properties. CREATE DATABASE
-- takes no parameters.
SELECT 'CREATE DATABASE ' || quote_ident(%(name)s) || ' ' || %(properties)s AS statement;
