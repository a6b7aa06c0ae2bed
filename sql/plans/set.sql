-- Change the limits of a plan. NULL keeps a limit; 0 per day means unlimited.
-- If no plan has this name, create the plan, unless a limit is NULL.
WITH changed AS (
    UPDATE plans
       SET per_minute = coalesce(%(per_minute)s, per_minute),
           per_day = nullif(coalesce(%(per_day)s, per_day), 0)
     WHERE name = %(name)s
 RETURNING name
)
INSERT INTO plans (name, per_minute, per_day)
SELECT %(name)s, %(per_minute)s, nullif(%(per_day)s, 0)
 WHERE NOT EXISTS (SELECT FROM changed)
   AND %(per_minute)s::integer IS NOT NULL
   AND %(per_day)s::integer IS NOT NULL;
