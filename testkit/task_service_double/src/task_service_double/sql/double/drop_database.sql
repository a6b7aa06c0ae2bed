-- The statement that drops the database of this name, whose connections it ends.
SELECT 'DROP DATABASE ' || quote_ident(%(name)s) || ' WITH (FORCE)' AS statement;
