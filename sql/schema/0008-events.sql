-- Events, and the feeds in which clients pull them, complete and in the order of their positions.

-- The order of events. A transaction that changes a resource takes the position while it holds the
-- row, so that the events of one resource have the order of its versions. Position 1 is no event's.
CREATE SEQUENCE event_positions;
SELECT nextval('event_positions');

-- The outbox: the exact text of each message, written in the transaction of the change.
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

-- The workspaces whose events somebody has ever pulled or got by a webhook. A trigger adds the row
-- with the first webhook. Without a row here, a change writes no event.
CREATE TABLE feeds (
    workspace_id uuid PRIMARY KEY
        REFERENCES workspaces (id) ON DELETE CASCADE,
    -- A cursor is good for this history only. A load, which announces nothing, begins another one.
    history uuid NOT NULL DEFAULT gen_random_uuid(),
    -- Events up to this position may be missing.
    complete_after bigint NOT NULL DEFAULT nextval('event_positions'),
    -- True once every transaction has ended that did not see the feed when it announced.
    ready boolean NOT NULL DEFAULT false,
    -- To an hour; NULL without a reader since WEBHOOK_KEEP.
    read_at timestamptz
);

CREATE INDEX feeds_by_reading ON feeds (read_at);

-- The positions that cursors have. A cursor proves its row, which is newer than all that its reader
-- had seen: where the row is, nothing of that is lost. PostgreSQL empties an unlogged table after a
-- crash, on a standby that is promoted, and in files that are put back; a row that pg_restore wrote
-- has another xmin.
CREATE UNLOGGED TABLE event_cursors (
    workspace_id uuid NOT NULL
        REFERENCES feeds (workspace_id) ON DELETE CASCADE,
    position bigint NOT NULL,
    -- Simultaneous readers may each add a row.
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    -- Of a first cursor: it is good until the server stops, because its reader lists what is newer
    -- than the row. The same is true of the cursors of polls after it, until the position moves on.
    -- NULL of a cursor that came with events, or after them.
    server_started timestamptz,
    PRIMARY KEY (workspace_id, position, id)
);

-- The second part of a cursor: a load changes the history, a copy has another database, and a
-- restored row was written by another transaction.
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

-- The advisory locks of a workspace have 16 bits of its id, and a position. Two workspaces with the
-- same bits only wait for each other.
CREATE FUNCTION position_key(workspace_id uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT hashtext(workspace_id::text)::bigint << 48
$$;

-- Before a transaction takes its first position for a workspace: tell readers, by a shared lock,
-- the position that its events come after. One lock serves all of them.
CREATE FUNCTION hold_position(workspace_id uuid) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    -- The ids of all workspaces that this transaction has a lock for.
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

-- The body of an event, for webhooks and the feed.
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

-- The names of the members that an update changed, in the order of the object. Each update changes
-- updatedAt and version, so they are not listed.
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
-- change. Without a webhook that subscribes, write the event only if a client pulls events.
-- Return the event's id, or NULL without a delivery. The deliveries are due at once: either the
-- request or a worker claims and attempts them.
-- Most workspaces have no row in feeds: the statements of requests ask for it before they call,
-- which is cheaper. A statement locks its tables before its snapshot, so wait_for_writers() sees
-- each one that does not see a new feed.
CREATE FUNCTION announce(
    workspace_id uuid,
    type text,
    data json,
    -- The user whose request it is; NULL for a command.
    actor_id uuid DEFAULT NULL,
    -- Of an update: its changed_members.
    changed json DEFAULT '[]'
) RETURNS uuid
LANGUAGE plpgsql
AS $$
DECLARE
    new_event_id uuid;
    -- NULL if the workspace has never had a webhook or a reader.
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
                   changed,
                   announce.data
               )
           );
    INSERT INTO deliveries (workspace_id, webhook_id, event_id, due_at)
    SELECT webhook.workspace_id, webhook.id, new_event_id, now()
      FROM webhooks AS webhook
     WHERE webhook.workspace_id = announce.workspace_id
       AND webhook.disabled_at IS NULL
       AND (webhook.events = '{}' OR announce.type = ANY (webhook.events))
       -- If another transaction is deleting the webhook, the lock waits and then skips the webhook.
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

-- The position up to which all transactions with events of the workspace have ended: a statement
-- that begins after this one sees each event up to there that will ever be. The order of the steps
-- matters: a lock that is taken after the second one is that of positions beyond the first one.
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

-- The tables whose changes are announced.
CREATE FUNCTION announcing_tables() RETURNS regclass[]
LANGUAGE sql STABLE
AS $$
    SELECT '{tasks,meetings,suggestions}'::regclass[]
$$;

-- Wait until each transaction has ended that is changing a resource now; return false if one has
-- not within the seconds.
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
