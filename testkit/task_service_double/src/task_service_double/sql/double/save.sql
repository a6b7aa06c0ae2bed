-- Copy all tables of the service, and the clock, into the schema snapshot.
DO $$
DECLARE
    saved record;
BEGIN
    FOR saved IN SELECT name, source FROM snapshot.tables LOOP
        EXECUTE format('DROP TABLE IF EXISTS snapshot.%I', 'of_' || saved.name);
        EXECUTE format('CREATE TABLE snapshot.%I AS TABLE %s', 'of_' || saved.name, saved.source);
    END LOOP;
END
$$;
