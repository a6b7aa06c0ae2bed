-- Replace the rows of all tables with their copies. No trigger of the service runs meanwhile.
DO $$
DECLARE
    restored record;
    inserts text;
BEGIN
    -- PostgreSQL does not alter a table that has pending deferred triggers.
    SET CONSTRAINTS ALL IMMEDIATE;
    FOR restored IN SELECT source FROM snapshot.tables LOOP
        EXECUTE format('ALTER TABLE %s DISABLE TRIGGER USER', restored.source);
        EXECUTE format('DELETE FROM %s', restored.source);
    END LOOP;
    -- One statement inserts all rows. Two tables refer to each other, and PostgreSQL checks foreign
    -- keys at the end of a statement.
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
