-- Put a workspace on a plan, and change the limits of that plan. NULL leaves each of these as it
-- is.
WITH workspace AS (
    UPDATE workspaces AS workspace
       SET plan = coalesce(%(name)s, workspace.plan)
     WHERE workspace.id = %(workspace_id)s
 RETURNING workspace.plan
)
UPDATE plans AS plan
   SET per_minute = coalesce(%(per_minute)s, plan.per_minute),
       per_day = coalesce(%(per_day)s, plan.per_day)
  FROM workspace
 WHERE plan.name = workspace.plan
RETURNING plan.name, plan.per_minute, plan.per_day;
