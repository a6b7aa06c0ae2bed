-- Return the statement that drops the database with this name and closes its connections.
SELECT 'DROP DATABASE ' || quote_ident(%(name)s) || ' WITH (FORCE)' AS statement;
