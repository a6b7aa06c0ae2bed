-- All plans with the number of their workspaces, the lowest limits first.
SELECT plan.name,
       plan.per_minute,
       plan.per_day,
       (SELECT count(*) FROM workspaces AS workspace WHERE workspace.plan = plan.name) AS workspaces
  FROM plans AS plan
 ORDER BY plan.per_minute, plan.name;
