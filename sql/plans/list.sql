-- All plans, each with the number of workspaces that use it, lowest limits first.
SELECT plan.name,
       plan.per_minute,
       plan.per_day,
       (SELECT count(*) FROM workspaces AS workspace WHERE workspace.plan = plan.name)
       AS workspace_count
  FROM plans AS plan
 ORDER BY plan.per_minute, plan.name;
