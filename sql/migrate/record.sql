-- Record that a migration is applied, with the SHA-256 of its text.
INSERT INTO schema_migrations (name, sha256) VALUES (%(name)s, %(sha256)s);
