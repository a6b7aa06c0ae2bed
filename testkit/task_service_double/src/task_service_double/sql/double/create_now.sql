-- The clock of a test double: now() finds it where search_path has clock before pg_catalog.
CREATE FUNCTION clock.now() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN pg_catalog.now() + coalesce((SELECT ahead.by FROM clock.ahead), interval '0');
