-- Strings of the clients' own on meetings (metadata).

-- The next migration adds the checks: with them, PostgreSQL would read all rows of the table.
CREATE DOMAIN metadata AS jsonb;

-- NULL stands for an empty object, so that an object without metadata costs nothing.
ALTER TABLE meetings ADD COLUMN metadata metadata;

-- Store the column uncompressed, as attendees is: its stored size limits the length of a page.
ALTER TABLE meetings ALTER COLUMN metadata SET STORAGE EXTERNAL;

-- A meeting, as lists show it.
CREATE TYPE meeting_document_3 AS (
    "id" uuid,
    "workspaceId" uuid,
    "title" text,
    "startTime" text,
    "endTime" text,
    "platform" text,
    "attendees" text[],
    "agenda" text,
    "notes" text,
    "status" text,
    "createdBy" uuid,
    "createdAt" text,
    "updatedAt" text,
    "version" integer,
    "updatedBy" uuid,
    "metadata" json
);
