-- Return whether this server is a standby, and how to end the setting that makes it reject writes;
-- NULL if there is no such setting.
-- Open sessions keep a setting of their database or role, so the remedy also ends them.
SELECT pg_is_in_recovery() AS standby,
       CASE
           WHEN setting = 'on' AND NOT pg_is_in_recovery()
           THEN coalesce(
                    'as a superuser, in psql: SET default_transaction_read_only = off; ALTER '
                    || CASE source
                           WHEN 'global' THEN 'ROLE ALL'
                           WHEN 'database' THEN format('DATABASE %%I', current_database())
                           WHEN 'user' THEN format('ROLE %%I', session_user)
                           WHEN 'database user'
                           THEN format('ROLE %%I IN DATABASE %%I', session_user, current_database())
                           WHEN 'configuration file' THEN 'SYSTEM'
                       END
                    || CASE source
                           WHEN 'configuration file'
                           THEN ' SET default_transaction_read_only = off; SELECT pg_reload_conf()'
                           ELSE ' RESET default_transaction_read_only'
                       END
                    || format(
                           '; SELECT pg_terminate_backend(pid) FROM pg_stat_activity'
                           ' WHERE usename = %%L AND pid <> pg_backend_pid()',
                           session_user
                       ),
                    'take default_transaction_read_only out of DATABASE_URL, or out of the command'
                    ' line of PostgreSQL'
                )
       END AS remedy
  FROM pg_settings
 WHERE name = 'default_transaction_read_only';
