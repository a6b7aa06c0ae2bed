-- Let all requests wait that ask for a credential or for the state of the schema.
LOCK TABLE tokens, usage, schema_migrations IN ACCESS EXCLUSIVE MODE;
