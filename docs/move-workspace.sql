-- Move one workspace to another cell, with its ids; docs/scaling.md says how and what users see.
--   psql -X -v slug=acme -v file=acme.sql -v to="$TO" -f docs/move-workspace.sql "$FROM"
\set ON_ERROR_STOP on
\set QUIET on
\pset format unaligned
\pset tuples_only on
SET statement_timeout = 0;
BEGIN;

-- From here on writes of this workspace wait. New rows refer to the workspace, so they wait too.
SELECT id FROM workspaces WHERE slug = :'slug' FOR UPDATE \gset
\o /dev/null
SELECT FROM members WHERE workspace_id = :'id' FOR UPDATE;
SELECT FROM tasks WHERE workspace_id = :'id' FOR UPDATE;
SELECT FROM meetings WHERE workspace_id = :'id' FOR UPDATE;
SELECT FROM webhooks WHERE workspace_id = :'id' FOR UPDATE;
SELECT FROM deliveries WHERE workspace_id = :'id' FOR UPDATE;

\o :file
\qecho 'BEGIN;'
\qecho 'CREATE TEMPORARY TABLE moved (LIKE users) ON COMMIT DROP;'
\qecho 'COPY moved FROM stdin;'
-- Members, and authors who are none any more.
COPY (
    SELECT person.*
      FROM users AS person
     WHERE person.id IN (
               SELECT user_id FROM members WHERE workspace_id = :'id'
                UNION ALL
               SELECT created_by FROM tasks WHERE workspace_id = :'id'
                UNION ALL
               SELECT created_by FROM meetings WHERE workspace_id = :'id'
           )
) TO STDOUT;
\qecho '\\.'
-- A user of a workspace that was moved before is there already.
\qecho 'INSERT INTO users (id, email, name, created_at, deactivated_at)'
\qecho 'SELECT id, email, name, created_at, deactivated_at FROM moved ON CONFLICT (id) DO NOTHING;'
-- Authors who were deleted.
\qecho 'CREATE TEMPORARY TABLE gone (LIKE deleted_users) ON COMMIT DROP;'
\qecho 'COPY gone FROM stdin;'
COPY (
    SELECT author.id, deleted.deleted_at
      FROM (
           SELECT created_by AS id FROM tasks WHERE workspace_id = :'id'
            UNION
           SELECT created_by FROM meetings WHERE workspace_id = :'id'
           ) AS author
      LEFT JOIN deleted_users AS deleted ON deleted.id = author.id
     WHERE NOT EXISTS (SELECT FROM users AS person WHERE person.id = author.id)
) TO STDOUT;
\qecho '\\.'
\qecho 'INSERT INTO deleted_users SELECT * FROM gone ON CONFLICT (id) DO NOTHING;'
\qecho 'COPY workspaces FROM stdin;'
COPY (SELECT * FROM workspaces WHERE id = :'id') TO STDOUT;
\qecho '\\.'
\qecho 'COPY members FROM stdin;'
COPY (SELECT * FROM members WHERE workspace_id = :'id') TO STDOUT;
\qecho '\\.'
\qecho 'UPDATE users SET active_workspace_id = member.workspace_id'
\qecho 'FROM moved JOIN members AS member'
\qecho 'ON member.user_id = moved.id AND member.workspace_id = moved.active_workspace_id'
\qecho 'WHERE users.id = moved.id AND users.active_workspace_id IS NULL;'
-- The triggers of the new cell count the tasks.
\qecho 'COPY tasks FROM stdin;'
COPY (SELECT * FROM tasks WHERE workspace_id = :'id') TO STDOUT;
\qecho '\\.'
\qecho 'COPY meetings FROM stdin;'
COPY (SELECT * FROM meetings WHERE workspace_id = :'id') TO STDOUT;
\qecho '\\.'
\qecho 'COPY mail FROM stdin;'
COPY (SELECT * FROM mail WHERE workspace_id = :'id') TO STDOUT;
\qecho '\\.'
\qecho 'COPY knowledge (workspace_id, id, title, content, tags, created_at, updated_at) FROM stdin;'
COPY (
    SELECT workspace_id, id, title, content, tags, created_at, updated_at
      FROM knowledge
     WHERE workspace_id = :'id'
) TO STDOUT;
\qecho '\\.'
\qecho 'COPY suggestions FROM stdin;'
COPY (SELECT * FROM suggestions WHERE workspace_id = :'id') TO STDOUT;
\qecho '\\.'
\qecho 'COPY webhooks FROM stdin;'
COPY (SELECT * FROM webhooks WHERE workspace_id = :'id') TO STDOUT;
\qecho '\\.'
\qecho 'COPY previous_secrets FROM stdin;'
COPY (SELECT * FROM previous_secrets WHERE workspace_id = :'id') TO STDOUT;
\qecho '\\.'
\qecho 'COPY events FROM stdin;'
COPY (SELECT * FROM events WHERE workspace_id = :'id') TO STDOUT;
\qecho '\\.'
\qecho 'COPY deliveries FROM stdin;'
COPY (SELECT * FROM deliveries WHERE workspace_id = :'id') TO STDOUT;
\qecho '\\.'
\qecho 'COPY attempts FROM stdin;'
COPY (SELECT * FROM attempts WHERE workspace_id = :'id') TO STDOUT;
\qecho '\\.'
\qecho 'COPY idempotency_keys FROM stdin;'
COPY (SELECT * FROM idempotency_keys WHERE workspace_id = :'id') TO STDOUT;
\qecho '\\.'
\qecho 'COPY usage FROM stdin;'
COPY (SELECT * FROM usage WHERE workspace_id = :'id') TO STDOUT;
\qecho '\\.'
\qecho 'COMMIT;'
\o

\set moved `psql -X -q -v ON_ERROR_STOP=1 -f :'file' :'to' >&2 && echo on || echo off`
\if :moved
    DELETE FROM workspaces WHERE id = :'id';
    COMMIT;
\else
    ROLLBACK;
    DO 'BEGIN RAISE EXCEPTION ''the new cell has rejected the workspace; nothing was moved''; END';
\endif
