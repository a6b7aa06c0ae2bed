-- Mail; each e-mail belongs to one user in one workspace.

CREATE TABLE mail (
    workspace_id uuid NOT NULL
        REFERENCES workspaces (id) ON DELETE CASCADE,
    id uuid NOT NULL DEFAULT new_id(),
    user_id uuid NOT NULL,
    sender text NOT NULL
        CONSTRAINT "from must have 3 to 254 characters"
        CHECK (length(sender) BETWEEN 3 AND 254),
    recipients text[] NOT NULL DEFAULT '{}'
        CONSTRAINT "to must be at most 200 addresses of 254 characters"
        CHECK (cardinality(recipients) <= 200 AND longest(recipients) <= 254),
    subject text NOT NULL DEFAULT ''
        CONSTRAINT "subject must have at most 500 characters"
        CHECK (length(subject) <= 500),
    snippet text NOT NULL DEFAULT ''
        CONSTRAINT "snippet must have at most 2000 characters"
        CHECK (length(snippet) <= 2000),
    read boolean NOT NULL DEFAULT false,
    received_at timestamp_ms NOT NULL,
    PRIMARY KEY (workspace_id, id),
    CONSTRAINT "user must be a member of the workspace"
        FOREIGN KEY (workspace_id, user_id) REFERENCES members (workspace_id, user_id)
        ON DELETE CASCADE
);

-- Store the column uncompressed. The stored sizes of rows limit the length of a page. Compression
-- would make the stored size smaller than the addresses that the page returns.
ALTER TABLE mail ALTER COLUMN recipients SET STORAGE EXTERNAL;

CREATE INDEX mail_by_arrival ON mail (workspace_id, user_id, received_at, id);

CREATE INDEX mail_unread ON mail (workspace_id, user_id)
 WHERE NOT read;

-- An e-mail, as lists show it.
CREATE TYPE mail_document AS (
    "id" uuid,
    "from" text,
    "to" text[],
    "subject" text,
    "snippet" text,
    "read" boolean,
    "receivedAt" text
);

CREATE FUNCTION mail_json(mail mail) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT row_to_json(
               ROW(
                   mail.id,
                   mail.sender,
                   mail.recipients,
                   mail.subject,
                   mail.snippet,
                   mail.read,
                   iso(mail.received_at)
               )::mail_document
           )
$$;
