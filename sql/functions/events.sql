-- Events, and the feeds from which clients pull them.

-- Write an event, and a delivery for each webhook that subscribes to it, in the transaction of the
-- change. If no webhook subscribes, write the event only if clients pull events.
-- Return the event's id if it has a delivery, otherwise NULL. Deliveries are due immediately: the
-- request that caused the event, or a worker, claims and attempts them.
-- Most workspaces have no row in feeds. The updates of tasks and meetings look for the row before
-- they call this function, so that they make the JSON of the old object only if an event needs it.
-- The caller has or shares the lock of the workspace. So the first reader of the feed, who waits
-- for this lock alone, either waits for the change, or has added the feed before it. The command
-- load takes no such lock: await_older_releases() waits for its suggestions.
CREATE OR REPLACE FUNCTION announce(
    workspace_id uuid,
    type text,
    data json,
    -- The user who made the request; NULL for a command.
    actor_id uuid DEFAULT NULL,
    -- For an update, the object before it. The event names the members that have changed, and has
    -- their old values.
    before json DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql
AS $$
DECLARE
    new_event_id uuid;
    changed json := '[]';
    previous json := '{}';
    -- NULL if the workspace has never had a webhook or a reader: it has no row.
    is_pulled boolean := (
        SELECT read_at IS NOT NULL
          FROM feeds
         WHERE feeds.workspace_id = announce.workspace_id
    );
BEGIN
    IF is_pulled IS NULL THEN
        RETURN NULL;
    END IF;
    IF is_pulled THEN
        PERFORM hold_position(workspace_id);
    ELSIF NOT EXISTS (
        SELECT FROM webhooks
         WHERE webhooks.workspace_id = announce.workspace_id
           AND disabled_at IS NULL
           AND (events = '{}' OR type = ANY (events))
    ) THEN
        RETURN NULL;
    END IF;
    IF before IS NOT NULL THEN
        changed := changed_members(before, data);
        previous := members_of(before, changed);
    END IF;
    new_event_id := new_id();
    INSERT INTO events (workspace_id, id, type, body)
    VALUES (
               workspace_id,
               new_event_id,
               type,
               event_text(new_event_id, type, workspace_id, actor_id, changed, data, previous)
           );
    INSERT INTO deliveries (workspace_id, webhook_id, event_id, due_at)
    SELECT webhooks.workspace_id, id, new_event_id, now()
      FROM webhooks
     WHERE webhooks.workspace_id = announce.workspace_id
       AND disabled_at IS NULL
       AND (events = '{}' OR type = ANY (events))
       -- If another transaction is deleting the webhook, this waits, and then skips the webhook.
       FOR KEY SHARE;
    IF FOUND THEN
        RETURN new_event_id;
    END IF;
    IF NOT is_pulled THEN
        DELETE FROM events
         WHERE events.workspace_id = announce.workspace_id
           AND id = new_event_id;
    END IF;
    RETURN NULL;
END
$$;

-- Return the body of an event that is no update, such as a ping.
CREATE OR REPLACE FUNCTION event_body(
    id uuid,
    type text,
    workspace_id uuid,
    actor_id uuid,
    changed json,
    data json
) RETURNS text
LANGUAGE sql STABLE
AS $$
    SELECT event_text(id, type, workspace_id, actor_id, changed, data, '{}')
$$;

-- Return the body of an event, which webhooks and the feed send as it is.
CREATE OR REPLACE FUNCTION event_text(
    id uuid,
    type text,
    workspace_id uuid,
    actor_id uuid,
    changed json,
    data json,
    previous json
) RETURNS text
LANGUAGE sql STABLE
AS $$
    SELECT row_to_json(
               ROW(
                   'evt_' || replace(id::text, '-', ''),
                   type,
                   iso(now()),
                   workspace_id,
                   actor_id,
                   changed,
                   data,
                   previous
               )::event_document_2
           )::text
$$;

-- Return whether the body of an event has this value at a path; NULL matches every event. Only a
-- text that contains the value is parsed, because parsing takes many times as long as looking for
-- it.
CREATE OR REPLACE FUNCTION has_value(body text, path text[], value text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
               WHEN value IS NULL THEN true
               WHEN strpos(body, value) = 0 THEN false
               ELSE body::json #>> path = value
           END
$$;

-- Return the names of the members that an update has changed, in the order of the object. Every
-- update sets updatedAt, version and updatedBy, so these are not listed.
CREATE OR REPLACE FUNCTION changed_members(before json, after json) RETURNS json
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT json_list(array_agg(to_json(name) ORDER BY number))
      FROM json_each_text(after) WITH ORDINALITY AS new (name, value, number)
      JOIN json_each_text(before) AS old (name, value) USING (name)
     WHERE new.value IS DISTINCT FROM old.value
       AND name NOT IN ('updatedAt', 'version', 'updatedBy')
$$;

-- From now on, let changes in a workspace write events, for at least WEBHOOK_KEEP hours. Return
-- whether each change does; NULL if the user is no member.
-- The first reader takes the lock of the workspace, for the reason that announce() gives. It locks
-- the workspace as an operator does, because it may read even if the workspace is frozen.
CREATE OR REPLACE FUNCTION begin_feed(
    workspace_id uuid, user_id uuid, token_id uuid
) RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    is_ready boolean;
BEGIN
    PERFORM FROM members
      WHERE members.workspace_id = begin_feed.workspace_id
        AND members.user_id = begin_feed.user_id;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE feeds
       SET read_at = now()
     WHERE feeds.workspace_id = begin_feed.workspace_id
       AND read_at IS NOT NULL
 RETURNING ready
      INTO is_ready;
    IF NOT FOUND THEN
        PERFORM lock_workspace(workspace_id);
        IF present_role(token_id, workspace_id) IS NULL THEN
            RAISE no_data_found USING MESSAGE = 'Workspace not found';
        END IF;
        INSERT INTO feeds (workspace_id, read_at)
        VALUES (workspace_id, now())
            ON CONFLICT ON CONSTRAINT feeds_pkey DO UPDATE
           SET read_at = now(),
               ready = false,
               awaited = NULL
     RETURNING ready
          INTO is_ready;
    END IF;
    RETURN is_ready;
END
$$;

-- Return the part of a lock's key that stands for a workspace, for hold_position(): a hash of the
-- workspace's id in the upper 16 bits. The lower 48 bits are a position. Two workspaces with the
-- same hash only make each other's readers wait.
CREATE OR REPLACE FUNCTION position_key(workspace_id uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT hashtext(workspace_id::text)::bigint << 48
$$;

-- Before this transaction takes its first position for a workspace, tell readers which position its
-- events will come after. Readers find that position in the key of a shared advisory lock, which
-- the transaction holds until it ends. One lock serves all events of the transaction in that
-- workspace.
-- For example, the newest position is 7. This transaction locks with 7 and takes 8. Another
-- transaction takes 9 and commits. As long as the lock exists, settled_position() is 7, and no
-- reader sees 9.
CREATE OR REPLACE FUNCTION hold_position(workspace_id uuid) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    -- The ids of all workspaces for which this transaction holds a lock.
    held text := coalesce(current_setting('service.holds_positions', true), '');
BEGIN
    IF position(hold_position.workspace_id::text IN held) = 0 THEN
        PERFORM pg_advisory_xact_lock_shared(position_key(hold_position.workspace_id) | last_value)
           FROM event_positions;
        PERFORM set_config('service.holds_positions', held || hold_position.workspace_id, true);
    END IF;
END
$$;

-- Return the position up to which the events of a workspace are settled: all transactions that took
-- a position up to there have ended. A statement that begins after this one sees every event up to
-- there that will ever exist.
-- The order of the two steps matters. If a transaction takes its lock too late for the second step,
-- it takes its positions later still, and so beyond the position that the first step has read.
CREATE OR REPLACE FUNCTION settled_position(workspace_id uuid) RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    taken bigint;
    held bigint;
BEGIN
    SELECT last_value INTO taken FROM event_positions;
    SELECT min((classid::bigint & 65535) << 32 | objid::bigint)
      INTO held
      FROM pg_locks
     WHERE locktype = 'advisory'
       AND objsubid = 1
       AND classid::bigint >> 16
           = (position_key(settled_position.workspace_id) >> 48) & 65535
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
    RETURN least(taken, held);
END
$$;

-- Return the second part of a cursor, which proves that its row is the original one. A load changes
-- the history, a copy of the database has another oid, and a restored row was written by another
-- transaction (xmin).
CREATE OR REPLACE FUNCTION cursor_proof(history uuid, id uuid, written_by xid) RETURNS uuid
LANGUAGE sql STABLE
AS $$
    SELECT md5(
               concat_ws(
                   ' ',
                   history,
                   id,
                   written_by,
                   (SELECT oid FROM pg_database WHERE datname = current_database())
               )
           )::uuid
$$;
