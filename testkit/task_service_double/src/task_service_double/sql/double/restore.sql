-- Replace the rows of all tables by their copies; no trigger of the service runs meanwhile.
DO $$
DECLARE
    restored record;
    inserts text;
BEGIN
    -- A table whose deferred triggers wait cannot be altered.
    SET CONSTRAINTS ALL IMMEDIATE;
    FOR restored IN SELECT source FROM snapshot.tables LOOP
        EXECUTE format('ALTER TABLE %s DISABLE TRIGGER USER', restored.source);
        EXECUTE format('DELETE FROM %s', restored.source);
    END LOOP;
    -- One statement, because foreign keys are checked at its end: two tables refer to each other.
    SELECT 'WITH ' || string_agg(
               format(
                   '%I AS (INSERT INTO %s (%s) SELECT %s FROM snapshot.%I)',
                   name, source, columns, columns, 'of_' || name
               ),
               ', '
           ) || ' SELECT'
      INTO inserts
      FROM snapshot.tables;
    EXECUTE inserts;
    FOR restored IN SELECT source FROM snapshot.tables LOOP
        EXECUTE format('ALTER TABLE %s ENABLE TRIGGER USER', restored.source);
    END LOOP;
END
$$;
