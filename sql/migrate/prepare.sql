-- Create the table of the applied migrations.
CREATE TABLE IF NOT EXISTS schema_migrations (
    name text PRIMARY KEY,
    sha256 text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    -- The release that applied the migration, like 1.0.0.
    release text NOT NULL
);
