-- migrate: without a transaction
-- This index serves the filter completedBy.
-- A task that is not completed has no entry.
CREATE INDEX CONCURRENTLY IF NOT EXISTS tasks_by_completer
    ON tasks (workspace_id, completed_by, completed_at, id)
 WHERE completed_by IS NOT NULL;
