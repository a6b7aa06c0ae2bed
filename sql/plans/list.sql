-- All plans, each with the number of workspaces that use it, lowest limits first.
SELECT name,
       per_minute,
       per_day,
       (SELECT count(*) FROM workspaces WHERE plan = plans.name) AS workspace_count
  FROM plans
 ORDER BY per_minute, name;
