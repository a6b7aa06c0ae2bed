-- Plans without limits, for connections whose search_path begins with this schema.
CREATE SCHEMA unlimited
    CREATE VIEW plans AS
    SELECT name, 1000000000 AS per_minute, NULL::integer AS per_day
      FROM public.plans;
