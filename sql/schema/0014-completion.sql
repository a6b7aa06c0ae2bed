-- migrate: without a transaction
-- This index serves the bounds completedAfter and completedBefore, and sort=completedAt.
-- A task that is not completed has no entry, so creating one costs no more than before.
CREATE INDEX CONCURRENTLY IF NOT EXISTS tasks_by_completion
    ON tasks (workspace_id, completed_at, id)
 WHERE completed_at IS NOT NULL;
