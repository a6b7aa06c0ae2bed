-- Create the clock of a test double, a function that replaces now().
-- It does so in connections whose search_path has the schema clock before pg_catalog.
CREATE FUNCTION clock.now() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN pg_catalog.now() + coalesce((SELECT ahead.by FROM clock.ahead), interval '0');
