-- Block all requests that read a credential or the state of the schema.
LOCK TABLE tokens, usage, schema_migrations IN ACCESS EXCLUSIVE MODE;
