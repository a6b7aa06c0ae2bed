-- Create the schema for the copies of a snapshot, and a view of the tables to copy.
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
