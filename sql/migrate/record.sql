-- Note that a migration is applied, and the SHA-256 of its text.
INSERT INTO schema_migrations (name, sha256) VALUES (%(name)s, %(sha256)s);
