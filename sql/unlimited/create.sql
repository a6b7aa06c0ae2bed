-- Create a schema in which no plan has a limit. A connection whose search_path begins with this
-- schema reads its view instead of the table of plans.
CREATE SCHEMA unlimited
    CREATE VIEW plans AS
    SELECT name, 1000000000 AS per_minute, NULL::integer AS per_day
      FROM public.plans;
