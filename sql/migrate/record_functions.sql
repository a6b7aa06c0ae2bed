-- Record that a file of functions is applied, with the SHA-256 of its text and the release that
-- applied it.
INSERT INTO schema_functions (name, sha256, release)
VALUES (%(name)s, %(sha256)s, %(release)s)
    ON CONFLICT (name) DO UPDATE
   SET sha256 = excluded.sha256,
       applied_at = excluded.applied_at,
       release = excluded.release;
