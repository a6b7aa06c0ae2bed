-- Return whether the database lacks one of these migrations; a newer database may have more.
SELECT json_build_object('status', 'ok') AS body,
       EXISTS (
           SELECT
             FROM unnest(%(migrations)s::text[]) AS file (name)
            WHERE NOT EXISTS (
                      SELECT
                        FROM schema_migrations AS migration
                       WHERE migration.name = file.name
                  )
       ) AS pending;
