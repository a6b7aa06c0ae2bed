-- Return the statement that creates a database with this name: CREATE DATABASE takes no parameter.
SELECT 'CREATE DATABASE ' || quote_ident(%(name)s) || ' ENCODING ''UTF8'' TEMPLATE template0'
       AS statement;
