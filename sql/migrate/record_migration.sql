-- Record that a migration is applied, with the SHA-256 of its text and the release that applied it.
INSERT INTO schema_migrations (name, sha256, release)
VALUES (%(name)s, %(sha256)s, %(release)s);
