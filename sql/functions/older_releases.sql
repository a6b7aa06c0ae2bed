-- What only statements of releases 1.0.0 to 1.2.0 call, while they serve beside this release or
-- after a rollback. 2.0 drops it.
-- These releases had an order of locks instead of the lock of a workspace: users, members, the
-- workspace, tasks by their ids.

-- Lock a member, the acting user and all owners of a workspace, before one of them gets a new role
-- or is removed. Every call locks them in the order of their ids, so owners who change or remove
-- each other at the same time do not deadlock.
-- Return the member's present role, whether the acting user may give the member the new role (NULL:
-- keep the present one), and whether the workspace would still have an owner. Return no row unless
-- both users are members. Only owners may appoint, change or remove owners and admins.
CREATE OR REPLACE FUNCTION lock_member(
    user_id uuid, only_workspace_id uuid, workspace_id uuid, member_id uuid, new_role text
)
RETURNS TABLE (role text, permitted boolean, has_owner boolean)
LANGUAGE sql
AS $$
    WITH locked AS MATERIALIZED (
        SELECT user_id, role
          FROM members
         WHERE workspace_id = lock_member.workspace_id
           AND (role = 'owner' OR user_id IN (lock_member.user_id, member_id))
           AND acting_role(
                   lock_member.user_id, only_workspace_id, lock_member.workspace_id
               ) IS NOT NULL
         ORDER BY user_id
           FOR UPDATE
    ), acting AS (
        SELECT role
          FROM locked
         WHERE user_id = lock_member.user_id
         UNION ALL
        SELECT 'owner'
         WHERE lock_member.user_id IS NULL
    )
    SELECT member.role,
           acting.role = 'owner'
           OR (acting.role = 'admin'
               AND member.role = 'member'
               AND coalesce(new_role, 'member') = 'member'),
           coalesce(new_role, member.role) = 'owner'
           OR member.role <> 'owner'
           OR EXISTS (
                  SELECT
                    FROM locked AS other
                   WHERE other.role = 'owner'
                     AND other.user_id <> member.user_id
              )
      FROM locked AS member
     CROSS JOIN acting
     WHERE member.user_id = member_id
$$;

-- Do nothing. The trigger of this function once locked the tasks of a member who left. It stays
-- until 2.0, because dropping it would lock the table.
CREATE OR REPLACE FUNCTION lock_assigned_tasks() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    RETURN OLD;
END
$$;

-- Release 1.1.0 calls this.
CREATE OR REPLACE FUNCTION matches(
    task tasks,
    priorities text[],
    assignee text,
    user_id uuid,
    project_id text,
    parent_id text
) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT is_any(task.priority, priorities)
       AND is_chosen(task.assignee_id, assignee, user_id)
       AND (matches.project_id IS NULL OR task.project_id = matches.project_id)
       AND is_chosen(task.parent_id, matches.parent_id, NULL)
$$;

-- Return whether this transaction has taken all locks that it needs, in the order of locks: users
-- and members, the workspace, tasks by their ids. lock_batch() and update_task() say so. If it
-- waited for a task or a member that came later, other transactions could wait for it in turn. So
-- the functions below do not wait, and such a task or member does not exist for them.
-- A transaction of release 1.1.0 or of an operator does not say so.
CREATE OR REPLACE FUNCTION has_all_locks() RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT coalesce(current_setting('service.has_all_locks', true) = 'on', false)
$$;

-- Store the fields of a task that requests may change, and return the task with its new version.
-- Only tasks/update calls this. It has locked the assignee, a parent with a lower id and the task.
CREATE OR REPLACE FUNCTION update_task(after tasks, changes jsonb, user_id uuid) RETURNS tasks
LANGUAGE plpgsql
AS $$
BEGIN
    IF changes ?| '{assignee_id,parent_id}' AND NOT has_all_locks() THEN
        PERFORM FROM tasks
          WHERE workspace_id = after.workspace_id
            AND id = after.parent_id
            AND id > after.id
            FOR SHARE;
        PERFORM set_config('service.has_all_locks', 'on', true);
    END IF;
    UPDATE tasks
       SET title = after.title,
           description = after.description,
           status = after.status,
           priority = after.priority,
           due_date = after.due_date,
           -- Drop the day that belonged to the old timestamp, as change_task() does.
           due_day = CASE
               WHEN changes ? 'due_day' OR after.due_date = tasks.due_date THEN after.due_day
           END,
           assignee_id = after.assignee_id,
           project_id = after.project_id,
           parent_id = after.parent_id,
           metadata = after.metadata,
           completed_at = CASE
               WHEN after.status <> 'done' THEN NULL
               ELSE coalesce(completed_at, now_ms())
           END,
           updated_at = now_ms(),
           version = version + 1,
           updated_by = user_id,
           updated_by_version = version + 1
     WHERE workspace_id = after.workspace_id
       AND id = after.id
 RETURNING *
      INTO after;
    RETURN after;
END
$$;

-- Return the tables whose changes are announced.
CREATE OR REPLACE FUNCTION announcing_tables() RETURNS regclass[]
LANGUAGE sql STABLE
AS $$
    SELECT '{tasks,meetings,suggestions}'::regclass[]
$$;

-- This release calls this function, for the sake of the others: the first reader of a feed must
-- wait for the transactions of releases that do not lock the workspace, and may have missed the
-- feed. PostgreSQL locks a statement's tables before it takes the snapshot, so pg_locks shows each.
-- The first call stores which transactions run, so each further call comes nearer to the end. Those
-- that have locked a workspace, or wait for it, are of this release. load locks the nil workspace,
-- and is awaited only once it has announced suggestions of this workspace, see load/suggestion.
-- Return false if another one still runs after 50 ms.
CREATE OR REPLACE FUNCTION await_older_releases(workspace_id uuid) RETURNS boolean
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE feeds
       SET awaited = ARRAY(
               SELECT virtualtransaction
                 FROM pg_locks
                WHERE mode IN ('RowShareLock', 'RowExclusiveLock')
                  AND relation = ANY (announcing_tables())
           )
     WHERE feeds.workspace_id = await_older_releases.workspace_id
       AND awaited IS NULL;
    FOR attempt IN 1..10 LOOP
        UPDATE feeds
           SET ready = true
         WHERE feeds.workspace_id = await_older_releases.workspace_id
           AND read_at IS NOT NULL
           AND NOT EXISTS (
                   SELECT virtualtransaction
                     FROM pg_locks
                    WHERE virtualtransaction = ANY (awaited)
                   EXCEPT
                   SELECT virtualtransaction
                     FROM pg_locks AS known
                    WHERE locktype = 'advisory'
                      AND classid = 7
                      AND objsubid = 2
                      AND NOT EXISTS (
                              SELECT
                                FROM pg_locks
                               WHERE virtualtransaction = known.virtualtransaction
                                 AND locktype = 'advisory'
                                 AND classid = 9
                                 AND objid::bigint
                                     = uuid_hash(await_older_releases.workspace_id)::bigint
                                       & 4294967295
                          )
               );
        IF FOUND THEN
            RETURN true;
        END IF;
        PERFORM pg_sleep(0.005);
    END LOOP;
    RETURN false;
END
$$;

-- Wait until every transaction that is changing a resource now has ended. Return false if one is
-- still running after this number of seconds.
CREATE OR REPLACE FUNCTION wait_for_writers(seconds float8) RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    writers text[] := ARRAY(
        SELECT virtualtransaction
          FROM pg_locks
         -- An update locks its rows before the function that changes them locks the table.
         WHERE mode IN ('RowShareLock', 'RowExclusiveLock')
           AND relation = ANY (announcing_tables())
    );
BEGIN
    WHILE EXISTS (SELECT FROM pg_locks WHERE virtualtransaction = ANY (writers)) LOOP
        IF clock_timestamp() > now() + seconds * interval '1 second' THEN
            RETURN false;
        END IF;
        PERFORM pg_sleep(0.005);
    END LOOP;
    RETURN true;
END
$$;

-- Store the fields of a meeting that requests may change, and return the meeting with its new
-- version. Only meetings/update calls this. The list of fields stands here, so that whoever adds a
-- field finds it beside the JSON.
CREATE OR REPLACE FUNCTION update_meeting(after meetings, user_id uuid) RETURNS meetings
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE meetings
       SET title = after.title,
           start_time = after.start_time,
           end_time = after.end_time,
           platform = after.platform,
           attendees = after.attendees,
           agenda = after.agenda,
           notes = after.notes,
           status = after.status,
           summary = after.summary,
           action_items = after.action_items,
           decisions = after.decisions,
           metadata = after.metadata,
           updated_at = now_ms(),
           version = version + 1,
           updated_by = user_id,
           updated_by_version = version + 1
     WHERE workspace_id = after.workspace_id
       AND id = after.id
 RETURNING *
      INTO after;
    RETURN after;
END
$$;

-- Return the number of webhooks of a workspace. Until the transaction ends, other transactions wait
-- here, so that two new webhooks cannot both be the last one that the limit allows.
CREATE OR REPLACE FUNCTION lock_and_count_webhooks(workspace_id uuid) RETURNS bigint
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM workspaces
      WHERE id = lock_and_count_webhooks.workspace_id
        FOR NO KEY UPDATE;
    RETURN (
        SELECT count(*)
          FROM webhooks
         WHERE webhooks.workspace_id = lock_and_count_webhooks.workspace_id
           AND deleted_at IS NULL
    );
END
$$;

-- Return how many of the first rows have at most 1 MiB together; at least 1, even if the first row
-- is larger than that.
CREATE OR REPLACE FUNCTION rows_within_1_mib(sizes integer[]) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT greatest(1, count(*))::integer
      FROM (
           SELECT sum(coalesce(size, 0)) OVER (ORDER BY number) AS bytes
             FROM unnest(sizes) WITH ORDINALITY AS item (size, number)
           ) AS running
     WHERE bytes <= 1048576
$$;

-- Return the number of the last row of a page, or NULL if no page follows it. Release 1.1.0 calls
-- this; page_length() computes the sum itself.
CREATE OR REPLACE FUNCTION last_row(sizes integer[], bytes bigint, max_rows integer) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
               WHEN bytes > 1048576 THEN rows_within_1_mib(sizes[:max_rows])
               WHEN cardinality(sizes) > max_rows THEN max_rows
           END
$$;

-- Return how many rows a page has, or NULL if it has all the rows that the statement has read, and
-- no page follows.
-- A statement that shows a page reads max_rows + 1 rows, in the order of the list, and passes the
-- size of each row's long texts. The page ends after max_rows rows, or where fits_page() ends it.
CREATE OR REPLACE FUNCTION page_length(sizes integer[], max_rows integer) RETURNS integer
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
    RETURN (SELECT last_row(sizes, sum(size), max_rows) FROM unnest(sizes) AS size);
END
$$;
