-- Note that a migration is applied, in its own transaction.
INSERT INTO schema_migrations (name) VALUES (%(name)s);
