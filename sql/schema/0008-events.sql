-- Events, and the feeds from which clients pull them: completely, in the order of positions.

-- The positions of events. A transaction takes the position while it holds the lock on the
-- resource, so the events of one resource have the order of its versions.
-- Positions do not have the order of commits: a transaction may take position 5 and commit after
-- another one that took position 6. A reader who saw 6 first, and then asked for events after 6,
-- would miss 5. So readers see events only up to settled_position(), see below.
-- Position 1 belongs to no event. It is taken here, so that last_value is always a position that
-- has been taken.
CREATE SEQUENCE event_positions;
SELECT nextval('event_positions');

-- The outbox: the exact text of each event, written in the transaction of the change.
CREATE TABLE events (
    workspace_id uuid NOT NULL
        REFERENCES workspaces (id) ON DELETE CASCADE,
    id uuid NOT NULL,
    type text NOT NULL,
    body text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    position bigint NOT NULL DEFAULT nextval('event_positions'),
    PRIMARY KEY (workspace_id, id)
);

CREATE INDEX events_by_age ON events (created_at);
CREATE INDEX events_by_position ON events (workspace_id, position);

-- The workspaces that write events. A workspace gets a row when a client first pulls its events,
-- and, by a trigger, with its first webhook. In a workspace without a row, a change writes no
-- event.
CREATE TABLE feeds (
    workspace_id uuid PRIMARY KEY
        REFERENCES workspaces (id) ON DELETE CASCADE,
    -- A cursor is valid for one history only. The command load announces no tasks and meetings, and
    -- so begins a new history.
    history uuid NOT NULL DEFAULT gen_random_uuid(),
    -- Events up to this position may be missing: they are older than the feed, or were deleted.
    complete_after bigint NOT NULL DEFAULT nextval('event_positions'),
    -- False while a transaction may still be running that began before the feed was there, and so
    -- writes no events.
    ready boolean NOT NULL DEFAULT false,
    -- The time of the last poll, to an hour. NULL if no client has polled for WEBHOOK_KEEP hours,
    -- or ever.
    read_at timestamptz
);

CREATE INDEX feeds_by_reading ON feeds (read_at);

-- The cursors that readers hold. A cursor that the API returns names a position and proves, by
-- cursor_proof(), that it was made from a row of this table. It is only valid while that row
-- exists.
-- The table finds out whether PostgreSQL has lost changes that a reader has seen. For example, a
-- reader sees an event at position 900. Then the database is restored from an older backup, without
-- this event. Soon other events get positions 900 and 901, and the reader, who goes on after 900,
-- would miss the first of them without noticing.
-- The service stores a row for each cursor, and writes the row after all events that the reader of
-- the cursor has seen. So if the row is still there, all these events are still there, too.
-- PostgreSQL empties an UNLOGGED table after a crash, on a standby that is promoted, and when a
-- backup of its files is put back. A row that pg_restore has written has another xmin. In each of
-- these cases the cursor has no valid row, and the reader gets 410 and lists everything again.
CREATE UNLOGGED TABLE event_cursors (
    workspace_id uuid NOT NULL
        REFERENCES feeds (workspace_id) ON DELETE CASCADE,
    position bigint NOT NULL,
    -- Readers who get the same position at the same time may each add a row.
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    -- The start of the server, if the reader may have seen more than this row proves. A reader
    -- takes a first cursor, without events, and then lists all tasks and meetings, which may be
    -- newer than the row. So the cursor is valid until this server stops. The same is true of the
    -- next cursors, until the position moves on.
    -- NULL if events came before the cursor: then the row is newer than all that the reader has
    -- seen.
    server_started timestamptz,
    PRIMARY KEY (workspace_id, position, id)
);

-- Return the second part of a cursor, which proves that its row is the original one. A load changes
-- the history, a copy of the database has another oid, and a restored row was written by another
-- transaction (xmin).
CREATE FUNCTION cursor_proof(history uuid, id uuid, written_by xid) RETURNS uuid
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

-- Return the upper 16 bits of an advisory lock's key: a hash of the workspace's id. The lower 48
-- bits are a position. Two workspaces with the same hash only make each other's readers wait.
CREATE FUNCTION position_key(workspace_id uuid) RETURNS bigint
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
CREATE FUNCTION hold_position(workspace_id uuid) RETURNS void
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

CREATE TYPE event_document AS (
    "id" text,
    "type" text,
    "timestamp" text,
    "workspaceId" uuid,
    "actorId" uuid,
    "changed" json,
    "data" json
);

-- Return the body of an event, which webhooks and the feed send as it is.
CREATE FUNCTION event_body(
    id uuid,
    type text,
    workspace_id uuid,
    actor_id uuid,
    changed json,
    data json
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
                   data
               )::event_document
           )::text
$$;

-- Return the names of the members that an update has changed, in the order of the object. Every
-- update changes updatedAt and version, so these are not listed.
CREATE FUNCTION changed_members(before json, after json) RETURNS json
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT json_list(array_agg(to_json(name) ORDER BY number))
      FROM json_each_text(after) WITH ORDINALITY AS new (name, value, number)
      JOIN json_each_text(before) AS old (name, value) USING (name)
     WHERE new.value IS DISTINCT FROM old.value
       AND name NOT IN ('updatedAt', 'version')
$$;

-- Write an event, and a delivery for each webhook that subscribes to it, in the transaction of the
-- change. If no webhook subscribes, write the event only if clients pull events.
-- Return the event's id if it has a delivery, otherwise NULL. Deliveries are due immediately: the
-- request that caused the event, or a worker, claims and attempts them.
-- Most workspaces have no row in feeds. The statements of requests look for the row before they
-- call this function, which is cheaper than calling it.
-- A statement may miss a feed that was added after its snapshot. But PostgreSQL locks a statement's
-- tables before it takes the snapshot, so wait_for_writers(), which runs after the feed was added,
-- finds the lock of each such statement and waits for its transaction.
CREATE FUNCTION announce(
    workspace_id uuid,
    type text,
    data json,
    -- The user who made the request; NULL for a command.
    actor_id uuid DEFAULT NULL,
    -- For an update, the object before it. Its members that have changed are named in the event.
    before json DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql
AS $$
DECLARE
    new_event_id uuid;
    -- NULL if the workspace has never had a webhook or a reader: it has no row.
    is_pulled boolean := (
        SELECT feed.read_at IS NOT NULL
          FROM feeds AS feed
         WHERE feed.workspace_id = announce.workspace_id
    );
BEGIN
    IF is_pulled IS NULL THEN
        RETURN NULL;
    END IF;
    IF is_pulled THEN
        PERFORM hold_position(workspace_id);
    ELSIF NOT EXISTS (
        SELECT FROM webhooks AS webhook
         WHERE webhook.workspace_id = announce.workspace_id
           AND webhook.disabled_at IS NULL
           AND (webhook.events = '{}' OR announce.type = ANY (webhook.events))
    ) THEN
        RETURN NULL;
    END IF;
    new_event_id := new_id();
    INSERT INTO events (workspace_id, id, type, body)
    VALUES (
               announce.workspace_id,
               new_event_id,
               announce.type,
               event_body(
                   new_event_id,
                   announce.type,
                   announce.workspace_id,
                   actor_id,
                   CASE WHEN before IS NULL THEN '[]' ELSE changed_members(before, data) END,
                   announce.data
               )
           );
    INSERT INTO deliveries (workspace_id, webhook_id, event_id, due_at)
    SELECT webhook.workspace_id, webhook.id, new_event_id, now()
      FROM webhooks AS webhook
     WHERE webhook.workspace_id = announce.workspace_id
       AND webhook.disabled_at IS NULL
       AND (webhook.events = '{}' OR announce.type = ANY (webhook.events))
       -- If another transaction is deleting the webhook, this waits, and then skips the webhook.
       FOR KEY SHARE;
    IF FOUND THEN
        RETURN new_event_id;
    END IF;
    IF NOT is_pulled THEN
        DELETE FROM events AS event
         WHERE event.workspace_id = announce.workspace_id
           AND event.id = new_event_id;
    END IF;
    RETURN NULL;
END
$$;

-- Return the position up to which the events of a workspace are settled: all transactions that took
-- a position up to there have ended. A statement that begins after this one sees every event up to
-- there that will ever exist.
-- The order of the two steps matters. If a transaction takes its lock too late for the second step,
-- it takes its positions later still, and so beyond the position that the first step has read.
CREATE FUNCTION settled_position(workspace_id uuid) RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    taken bigint;
    held bigint;
BEGIN
    SELECT last_value INTO taken FROM event_positions;
    SELECT min((lock.classid::bigint & 65535) << 32 | lock.objid::bigint)
      INTO held
      FROM pg_locks AS lock
     WHERE lock.locktype = 'advisory'
       AND lock.objsubid = 1
       AND lock.classid::bigint >> 16
           = (position_key(settled_position.workspace_id) >> 48) & 65535
       AND lock.database = (SELECT oid FROM pg_database WHERE datname = current_database());
    RETURN least(taken, held);
END
$$;

-- Return the tables whose changes are announced.
CREATE FUNCTION announcing_tables() RETURNS regclass[]
LANGUAGE sql STABLE
AS $$
    SELECT '{tasks,meetings,suggestions}'::regclass[]
$$;

-- Wait until every transaction that is changing a resource now has ended. Return false if one is
-- still running after this number of seconds.
CREATE FUNCTION wait_for_writers(seconds float8) RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    writers text[] := ARRAY(
        SELECT lock.virtualtransaction
          FROM pg_locks AS lock
         WHERE lock.mode = 'RowExclusiveLock'
           AND lock.relation = ANY (announcing_tables())
    );
BEGIN
    WHILE EXISTS (SELECT FROM pg_locks AS lock WHERE lock.virtualtransaction = ANY (writers)) LOOP
        IF clock_timestamp() > now() + seconds * interval '1 second' THEN
            RETURN false;
        END IF;
        PERFORM pg_sleep(0.005);
    END LOOP;
    RETURN true;
END
$$;
