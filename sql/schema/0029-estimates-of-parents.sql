-- Let PostgreSQL estimate that few tasks have the same parent, also where most tasks of a workspace
-- have one.

-- When a task is deleted, the foreign key looks for subtasks. If the statistics say that half of
-- all tasks have the same parent, PostgreSQL reads the whole workspace for each deleted task, and
-- the deletion of 10 000 subtasks takes longer than a statement may. The estimate counts from the
-- next ANALYZE on.
ALTER TABLE tasks ALTER COLUMN parent_id SET (n_distinct = -0.2);
