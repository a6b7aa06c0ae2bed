-- Change the limits of a plan. NULL keeps a limit; 0 per day means unlimited.
-- If no plan has this name, create the plan; then neither limit may be NULL.
WITH changed AS (
    UPDATE plans
       SET per_minute = coalesce(%(per_minute)s, per_minute),
           per_day = CASE
               WHEN %(per_day)s::integer IS NULL THEN per_day
               ELSE nullif(%(per_day)s::integer, 0)
           END
     WHERE name = %(name)s
 RETURNING name, per_minute, per_day
), created AS (
    INSERT INTO plans AS plan (name, per_minute, per_day)
    SELECT %(name)s, %(per_minute)s, nullif(%(per_day)s, 0)
     WHERE NOT EXISTS (SELECT FROM changed)
       AND %(per_minute)s::integer IS NOT NULL
       AND %(per_day)s::integer IS NOT NULL
 RETURNING plan.name, plan.per_minute, plan.per_day
), found AS (
    SELECT name, per_minute, per_day FROM changed
     UNION ALL
    SELECT name, per_minute, per_day FROM created
)
SELECT found.name,
       found.per_minute,
       found.per_day,
       (SELECT count(*) FROM workspaces AS workspace WHERE workspace.plan = found.name)
       AS workspace_count
  FROM found;
