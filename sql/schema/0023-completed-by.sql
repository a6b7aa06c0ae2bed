-- The user who completed a task (completedBy).

-- There is no foreign key because the user's id stays after the user has left, as in created_by.
ALTER TABLE tasks ADD COLUMN completed_by uuid;

-- A task, as responses and events show it.
CREATE TYPE task_document_3 AS (
    "id" uuid,
    "workspaceId" uuid,
    "title" text,
    "description" text,
    "status" text,
    "priority" text,
    "dueDate" text,
    "dueDay" date,
    "assigneeId" uuid,
    "projectId" text,
    "parentId" uuid,
    "createdBy" uuid,
    "createdAt" text,
    "updatedAt" text,
    "completedAt" text,
    "version" integer,
    "updatedBy" uuid,
    "completedBy" uuid,
    "metadata" json
);

-- sql/functions/tasks.sql has the text.
CREATE FUNCTION record_completer() RETURNS trigger
LANGUAGE plpgsql
AS 'BEGIN RETURN NEW; END';

CREATE TRIGGER record_completer
    BEFORE UPDATE OF status ON tasks
    FOR EACH ROW
    EXECUTE FUNCTION record_completer();
