-- Create the schema for the copies of snapshots, a view of the tables to copy, and the functions
-- that copy them and copy them back.
CREATE SCHEMA snapshot
    CREATE VIEW tables AS
        SELECT source.relname AS name,
               source.oid::regclass AS source,
               (
                   SELECT string_agg(quote_ident(attribute.attname), ', ')
                     FROM pg_attribute AS attribute
                    WHERE attribute.attrelid = source.oid
                      AND attribute.attnum > 0
                      AND attribute.attgenerated = ''
                      AND NOT attribute.attisdropped
               ) AS columns
          FROM pg_class AS source
         WHERE source.relkind = 'r'
           AND source.relnamespace::regnamespace::text IN ('public', 'clock')
           AND source.relname NOT IN ('schema_migrations', 'schema_functions', 'processes');

-- Return the name of the copy of a table. A hash keeps it short, however long the name of the
-- snapshot is.
CREATE FUNCTION snapshot.copy_of(source text, named text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN source || '_' || md5(named);

-- Copy all tables of the service, and the clock. An older snapshot of this name is replaced.
CREATE FUNCTION snapshot.save(named text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    saved record;
BEGIN
    PERFORM snapshot.forget(named);
    FOR saved IN SELECT source, snapshot.copy_of(name, named) AS copy FROM snapshot.tables LOOP
        EXECUTE format('CREATE TABLE snapshot.%I AS TABLE %s', saved.copy, saved.source);
    END LOOP;
END
$$;

-- Drop the copies of a snapshot, if there are any.
CREATE FUNCTION snapshot.forget(named text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    saved record;
BEGIN
    FOR saved IN SELECT snapshot.copy_of(name, named) AS copy FROM snapshot.tables LOOP
        EXECUTE format('DROP TABLE IF EXISTS snapshot.%I', saved.copy);
    END LOOP;
END
$$;

-- Replace the rows of all tables with their copies. No trigger of the service runs meanwhile.
CREATE FUNCTION snapshot.restore(named text) RETURNS void
LANGUAGE plpgsql AS $$
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
                   name, source, columns, columns, snapshot.copy_of(name, named)
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
