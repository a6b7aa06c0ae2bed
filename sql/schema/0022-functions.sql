-- The files of sql/functions that migrate has applied.
CREATE TABLE schema_functions (
    -- Like functions/tasks.
    name text PRIMARY KEY,
    sha256 text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    -- The release that applied the file, like 1.0.0.
    release text NOT NULL
);
