-- Suggestions of the AI; a pending suggestion waits for a decision.

CREATE TABLE suggestions (
    workspace_id uuid NOT NULL
        REFERENCES workspaces (id) ON DELETE CASCADE,
    id uuid NOT NULL DEFAULT new_id(),
    kind text NOT NULL
        CONSTRAINT "kind must have 1 to 128 characters"
        CHECK (length(kind) BETWEEN 1 AND 128),
    title text NOT NULL
        CONSTRAINT "title must have 1 to 500 characters"
        CHECK (length(title) BETWEEN 1 AND 500),
    body text
        CONSTRAINT "body must have at most 65536 characters"
        CHECK (length(body) <= 65536),
    task_id uuid,
    status text NOT NULL DEFAULT 'pending'
        CONSTRAINT "status must be one of: pending, accepted, dismissed"
        CHECK (status IN ('pending', 'accepted', 'dismissed')),
    created_at timestamp_ms NOT NULL DEFAULT now_ms(),
    PRIMARY KEY (workspace_id, id),
    CONSTRAINT "taskId must be the id of a task of the workspace"
        FOREIGN KEY (workspace_id, task_id) REFERENCES tasks (workspace_id, id)
        ON DELETE SET NULL (task_id)
);

CREATE INDEX suggestions_pending ON suggestions (workspace_id, id)
 WHERE status = 'pending';

CREATE INDEX suggestions_by_task ON suggestions (workspace_id, task_id)
 WHERE task_id IS NOT NULL;

-- A suggestion, as lists and events show it.
CREATE TYPE suggestion_document AS (
    "id" uuid,
    "kind" text,
    "title" text,
    "body" text,
    "taskId" uuid,
    "status" text,
    "createdAt" text
);

CREATE FUNCTION suggestion_json(suggestion suggestions) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT row_to_json(
               ROW(
                   suggestion.id,
                   suggestion.kind,
                   suggestion.title,
                   suggestion.body,
                   suggestion.task_id,
                   suggestion.status,
                   iso(suggestion.created_at)
               )::suggestion_document
           )
$$;
