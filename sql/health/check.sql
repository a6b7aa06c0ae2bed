-- The database answers; whether it lacks one of these migrations. A newer one has more of them.
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
