SET check_function_bodies = false;

CREATE TYPE public.attempt_document AS (
	at text,
	status integer,
	milliseconds integer,
	error text,
	answer text
);

CREATE TYPE public.delivery_document AS (
	id uuid,
	"eventId" text,
	type text,
	"timestamp" text,
	state text,
	"nextAttemptAt" text,
	attempts json
);

CREATE DOMAIN public.due_date AS timestamp with time zone
	CONSTRAINT "dueDate must be in the years 1900 to 9998 (UTC)" CHECK (((VALUE >= '1900-01-01 00:00:00+00'::timestamp with time zone) AND (VALUE < '9999-01-01 00:00:00+00'::timestamp with time zone)));

CREATE DOMAIN public.due_day AS date
	CONSTRAINT "dueDay must be in the years 1900 to 9998" CHECK (((VALUE >= '1900-01-01'::date) AND (VALUE < '9999-01-01'::date)));

CREATE TYPE public.event_document AS (
	id text,
	type text,
	"timestamp" text,
	"workspaceId" uuid,
	"actorId" uuid,
	changed json,
	data json
);

CREATE TYPE public.event_document_2 AS (
	id text,
	type text,
	"timestamp" text,
	"workspaceId" uuid,
	"actorId" uuid,
	changed json,
	data json,
	previous json
);

CREATE TYPE public.knowledge_document AS (
	id uuid,
	title text,
	content text,
	tags text[],
	"createdAt" text,
	"updatedAt" text
);

CREATE TYPE public.mail_document AS (
	id uuid,
	"from" text,
	"to" text[],
	subject text,
	snippet text,
	read boolean,
	"receivedAt" text
);

CREATE TYPE public.meeting_document AS (
	id uuid,
	"workspaceId" uuid,
	title text,
	"startTime" text,
	"endTime" text,
	platform text,
	attendees text[],
	agenda text,
	notes text,
	status text,
	"createdBy" uuid,
	"createdAt" text,
	"updatedAt" text,
	version integer
);

CREATE TYPE public.meeting_document_2 AS (
	id uuid,
	"workspaceId" uuid,
	title text,
	"startTime" text,
	"endTime" text,
	platform text,
	attendees text[],
	agenda text,
	notes text,
	status text,
	"createdBy" uuid,
	"createdAt" text,
	"updatedAt" text,
	version integer,
	"updatedBy" uuid
);

CREATE TYPE public.meeting_document_3 AS (
	id uuid,
	"workspaceId" uuid,
	title text,
	"startTime" text,
	"endTime" text,
	platform text,
	attendees text[],
	agenda text,
	notes text,
	status text,
	"createdBy" uuid,
	"createdAt" text,
	"updatedAt" text,
	version integer,
	"updatedBy" uuid,
	metadata json
);

CREATE TYPE public.member_document AS (
	"userId" uuid,
	name text,
	email text,
	role text,
	"joinedAt" text
);

CREATE DOMAIN public.metadata AS jsonb;

CREATE TYPE public.outcome_document AS (
	summary text,
	"actionItems" text[],
	decisions text[]
);

CREATE DOMAIN public.project_id AS text
	CONSTRAINT "projectId must have 1 to 128 characters" CHECK (((length(VALUE) >= 1) AND (length(VALUE) <= 128)));

CREATE TYPE public.suggestion_document AS (
	id uuid,
	kind text,
	title text,
	body text,
	"taskId" uuid,
	status text,
	"createdAt" text
);

CREATE DOMAIN public.task_description AS text
	CONSTRAINT "description must have at most 65536 characters" CHECK ((length(VALUE) <= 65536));

CREATE TYPE public.task_document AS (
	id uuid,
	"workspaceId" uuid,
	title text,
	description text,
	status text,
	priority text,
	"dueDate" text,
	"dueDay" date,
	"assigneeId" uuid,
	"projectId" text,
	"parentId" uuid,
	"createdBy" uuid,
	"createdAt" text,
	"updatedAt" text,
	"completedAt" text,
	version integer
);

CREATE TYPE public.task_document_2 AS (
	id uuid,
	"workspaceId" uuid,
	title text,
	description text,
	status text,
	priority text,
	"dueDate" text,
	"dueDay" date,
	"assigneeId" uuid,
	"projectId" text,
	"parentId" uuid,
	"createdBy" uuid,
	"createdAt" text,
	"updatedAt" text,
	"completedAt" text,
	version integer,
	"updatedBy" uuid
);

CREATE TYPE public.task_document_3 AS (
	id uuid,
	"workspaceId" uuid,
	title text,
	description text,
	status text,
	priority text,
	"dueDate" text,
	"dueDay" date,
	"assigneeId" uuid,
	"projectId" text,
	"parentId" uuid,
	"createdBy" uuid,
	"createdAt" text,
	"updatedAt" text,
	"completedAt" text,
	version integer,
	"updatedBy" uuid,
	"completedBy" uuid,
	metadata json
);

CREATE DOMAIN public.task_priority AS text
	CONSTRAINT "priority must be one of: urgent, high, medium, low" CHECK ((VALUE = ANY (ARRAY['urgent'::text, 'high'::text, 'medium'::text, 'low'::text])));

CREATE DOMAIN public.task_status AS text
	CONSTRAINT "status must be one of: todo, in_progress, done" CHECK ((VALUE = ANY (ARRAY['todo'::text, 'in_progress'::text, 'done'::text])));

CREATE DOMAIN public.task_title AS text
	CONSTRAINT "title must have 1 to 500 characters" CHECK (((length(VALUE) >= 1) AND (length(VALUE) <= 500)));

CREATE DOMAIN public.timestamp_ms AS timestamp with time zone
	CONSTRAINT "timestamps lie in the years 1900 to 9998" CHECK (((VALUE >= '1900-01-01 00:00:00+00'::timestamp with time zone) AND (VALUE < '9999-01-01 00:00:00+00'::timestamp with time zone)));

CREATE TYPE public.token_document AS (
	id uuid,
	name text,
	scope text,
	"createdAt" text,
	"expiresAt" text,
	"lastUsedAt" text,
	"workspaceId" uuid
);

CREATE TYPE public.webhook_document AS (
	id uuid,
	url text,
	events text[],
	state text,
	"disabledReason" text,
	"failingSince" text,
	"gapSince" text,
	waiting bigint,
	"nextAttemptAt" text,
	"createdAt" text,
	version integer
);

CREATE TYPE public.workspace_document AS (
	id uuid,
	name text,
	slug text,
	plan text,
	"memberCount" integer,
	"createdAt" text
);

CREATE TYPE public.workspace_setting_document AS (
	timezone text
);

CREATE FUNCTION public.acting_role(user_id uuid, only_workspace_id uuid, workspace_id uuid) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT CASE WHEN acting_role.user_id IS NULL THEN 'owner' ELSE (
               SELECT member.role
                 FROM memberships(acting_role.user_id, acting_role.only_workspace_id) AS member
                WHERE member.workspace_id = acting_role.workspace_id
           ) END
$$;

CREATE FUNCTION public.add_feed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO feeds (workspace_id)
    VALUES (NEW.workspace_id)
        ON CONFLICT (workspace_id) DO NOTHING;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.announce(workspace_id uuid, type text, data json, actor_id uuid DEFAULT NULL::uuid, before json DEFAULT NULL::json) RETURNS uuid
    LANGUAGE plpgsql
    AS $$
DECLARE
    new_event_id uuid;
    changed json := '[]';
    previous json := '{}';
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
    IF before IS NOT NULL THEN
        changed := changed_members(before, data);
        previous := members_of(before, changed);
    END IF;
    new_event_id := new_id();
    INSERT INTO events (workspace_id, id, type, body)
    VALUES (
               announce.workspace_id,
               new_event_id,
               announce.type,
               event_text(
                   new_event_id,
                   announce.type,
                   announce.workspace_id,
                   actor_id,
                   changed,
                   announce.data,
                   previous
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

CREATE FUNCTION public.announce_unassigned() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF EXISTS (SELECT FROM workspaces WHERE workspaces.id = NEW.workspace_id) THEN
        PERFORM announce(
                    NEW.workspace_id,
                    'task.updated',
                    task_json(NEW),
                    nullif(current_setting('service.actor_id', true), '')::uuid,
                    task_json(OLD)
                );
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.announcing_tables() RETURNS regclass[]
    LANGUAGE sql STABLE
    AS $$
    SELECT '{tasks,meetings,suggestions}'::regclass[]
$$;

CREATE FUNCTION public.beginning_of_day(day date, timezone text) RETURNS timestamp with time zone
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT least(
               day::timestamp AT TIME ZONE zone_name(timezone),
               (day - interval '1 millisecond') AT TIME ZONE zone_name(timezone)
                   + interval '1 millisecond'
           )
$$;

CREATE FUNCTION public.catch_up(workspace_id uuid, webhook_id uuid, pause interval) RETURNS bigint
    LANGUAGE sql
    AS $$
    WITH waiting AS MATERIALIZED (
        SELECT delivery.id, greatest(now(), attempt.at + catch_up.pause) AS due_at
          FROM deliveries AS delivery
          JOIN attempts AS attempt
            ON attempt.workspace_id = delivery.workspace_id
           AND attempt.delivery_id = delivery.id
           AND attempt.number = delivery.attempts
         WHERE delivery.workspace_id = catch_up.workspace_id
           AND delivery.webhook_id = catch_up.webhook_id
           AND delivery.state = 'waiting'
           AND delivery.due_at > greatest(now(), attempt.at + catch_up.pause)
           -- SKIP LOCKED avoids a deadlock: a transaction that records an outcome holds its
           -- delivery and waits for the webhook.
           FOR UPDATE OF delivery SKIP LOCKED
    ), caught_up AS (
        UPDATE deliveries AS delivery
           SET due_at = waiting.due_at
          FROM waiting
         WHERE delivery.workspace_id = catch_up.workspace_id
           AND delivery.id = waiting.id
     RETURNING delivery.id
    )
    SELECT count(*) FROM caught_up
$$;

CREATE FUNCTION public.changed_members(before json, after json) RETURNS json
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT json_list(array_agg(to_json(name) ORDER BY number))
      FROM json_each_text(after) WITH ORDINALITY AS new (name, value, number)
      JOIN json_each_text(before) AS old (name, value) USING (name)
     WHERE new.value IS DISTINCT FROM old.value
       AND name NOT IN ('updatedAt', 'version', 'updatedBy')
$$;

CREATE FUNCTION public.check_assignee() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    since timestamptz;
BEGIN
    SELECT person.deactivated_at
      INTO since
      FROM members AS member
      JOIN users AS person ON person.id = member.user_id
     WHERE member.workspace_id = NEW.workspace_id
       AND member.user_id = NEW.assignee_id
       FOR SHARE OF person SKIP LOCKED
       FOR KEY SHARE OF member SKIP LOCKED;
    IF NOT FOUND AND has_all_locks() THEN
        RAISE foreign_key_violation
              USING CONSTRAINT = 'assigneeId must be the id of a member of the workspace';
    ELSIF NOT FOUND THEN
        SELECT person.deactivated_at
          INTO since
          FROM members AS member
          JOIN users AS person ON person.id = member.user_id
         WHERE member.workspace_id = NEW.workspace_id
           AND member.user_id = NEW.assignee_id
           FOR SHARE OF person
           FOR KEY SHARE OF member;
    END IF;
    IF since IS NOT NULL
       AND (TG_OP = 'UPDATE' OR NEW.created_at > since OR NEW.created_at = now_ms())
    THEN
        RAISE check_violation
              USING CONSTRAINT = 'assigneeId must not be the id of a deactivated user';
    END IF;
    RETURN NEW;
END
$$;

CREATE FUNCTION public.check_parent() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    grandparent_id uuid;
BEGIN
    IF NEW.parent_id = NEW.id THEN
        RAISE check_violation USING CONSTRAINT = 'parentId must be another task';
    END IF;
    PERFORM FROM workspaces AS workspace
      WHERE workspace.id = NEW.workspace_id
        FOR KEY SHARE;
    SELECT parent.parent_id
      INTO grandparent_id
      FROM tasks AS parent
     WHERE parent.workspace_id = NEW.workspace_id
       AND parent.id = NEW.parent_id
       FOR SHARE SKIP LOCKED;
    IF NOT FOUND AND has_all_locks() THEN
        RAISE foreign_key_violation
              USING CONSTRAINT = 'parentId must be the id of a task of the workspace';
    ELSIF NOT FOUND THEN
        SELECT parent.parent_id
          INTO grandparent_id
          FROM tasks AS parent
         WHERE parent.workspace_id = NEW.workspace_id
           AND parent.id = NEW.parent_id
           FOR SHARE;
    END IF;
    IF grandparent_id IS NOT NULL THEN
        RAISE check_violation USING CONSTRAINT = 'parentId must not be the id of a subtask';
    END IF;
    PERFORM FROM tasks AS subtask
      WHERE subtask.workspace_id = NEW.workspace_id
        AND subtask.parent_id = NEW.id;
    IF FOUND THEN
        RAISE check_violation USING CONSTRAINT = 'parentId must be null for a task with subtasks';
    END IF;
    RETURN NEW;
END
$$;

CREATE FUNCTION public.claim_delivery(in_workspace_id uuid, delivery_id uuid, lease double precision) RETURNS TABLE(workspace_id uuid, id uuid, number integer, webhook_id uuid, url text, secret_numbers integer[], key_fingerprints text[], message_id text, body text, age double precision)
    LANGUAGE sql ROWS 1
    AS $$
    WITH claimed AS (
        UPDATE deliveries AS delivery
           SET due_at = now() + claim_delivery.lease * interval '1 second',
               attempts = delivery.attempts + 1
         WHERE delivery.workspace_id = claim_delivery.in_workspace_id
           AND delivery.id = claim_delivery.delivery_id
     RETURNING delivery.workspace_id,
               delivery.id,
               delivery.attempts,
               delivery.webhook_id,
               delivery.event_id
    )
    SELECT claimed.workspace_id,
           claimed.id,
           claimed.attempts,
           webhook.id,
           webhook.url,
           secret.secret_numbers,
           secret.key_fingerprints,
           'evt_' || replace(event.id::text, '-', ''),
           event.body,
           extract(epoch FROM now() - event.created_at)::float8
      FROM claimed
      JOIN events AS event
        ON event.workspace_id = claimed.workspace_id AND event.id = claimed.event_id
      JOIN webhooks AS webhook
        ON webhook.workspace_id = claimed.workspace_id AND webhook.id = claimed.webhook_id
     CROSS JOIN LATERAL signing_secrets(webhook) AS secret
$$;

CREATE FUNCTION public.count_members() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM
       FROM workspaces AS workspace
      WHERE workspace.id IN (SELECT workspace_id FROM changed)
      ORDER BY workspace.id
        FOR NO KEY UPDATE;
    UPDATE workspaces AS workspace
       SET member_count = (
               SELECT count(*) FROM members AS member WHERE member.workspace_id = workspace.id
           )
     WHERE workspace.id IN (SELECT workspace_id FROM changed);
    RETURN NULL;
END
$$;

CREATE TABLE public.usage (
    workspace_id uuid NOT NULL,
    subject text NOT NULL,
    minute_started_at timestamp with time zone NOT NULL,
    minute_count integer NOT NULL,
    day_started_at timestamp with time zone NOT NULL,
    day_count integer NOT NULL,
    admitted boolean NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000');

CREATE FUNCTION public.count_request(workspace_id uuid, subject text, per_minute integer, per_day integer) RETURNS public.usage
    LANGUAGE plpgsql
    AS $$
DECLARE
    hit usage;
BEGIN
    -- The commit of this count does not wait for the disk. The commit of a user's change does.
    SET LOCAL synchronous_commit = off;
    -- The lock on the row makes simultaneous requests of a subject count one after another. Another
    -- transaction may insert or delete the row meanwhile, so this repeats until it has the row.
    LOOP
        SELECT past.workspace_id,
               past.subject,
               -- least() keeps a window from getting longer if the clock was set back.
               least(past.minute_started_at, now()),
               past.minute_count,
               least(past.day_started_at, now()),
               past.day_count,
               past.admitted
          INTO hit
          FROM usage AS past
         WHERE past.workspace_id = count_request.workspace_id
           AND past.subject = count_request.subject
           FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO usage (
                   workspace_id, subject,
                   minute_started_at, minute_count, day_started_at, day_count, admitted
               )
        VALUES (count_request.workspace_id, count_request.subject, now(), 0, now(), 0, true)
            ON CONFLICT DO NOTHING;
    END LOOP;
    IF now() >= hit.minute_started_at + interval '1 minute' THEN
        hit.minute_started_at := now();
        hit.minute_count := 0;
    END IF;
    IF now() >= hit.day_started_at + interval '24 hours' THEN
        hit.day_started_at := now();
        hit.day_count := 0;
    END IF;
    hit.admitted := hit.minute_count < per_minute
                    AND (per_day IS NULL OR hit.day_count < per_day);
    IF hit.admitted THEN
        hit.minute_count := hit.minute_count + 1;
        hit.day_count := hit.day_count + 1;
    END IF;
    UPDATE usage AS present
       SET minute_started_at = hit.minute_started_at,
           minute_count = hit.minute_count,
           day_started_at = hit.day_started_at,
           day_count = hit.day_count,
           admitted = hit.admitted
     WHERE present.workspace_id = count_request.workspace_id
       AND present.subject = count_request.subject;
    RETURN hit;
END
$$;

CREATE FUNCTION public.cursor_proof(history uuid, id uuid, written_by xid) RETURNS uuid
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

CREATE FUNCTION public.new_id(at timestamp with time zone DEFAULT clock_timestamp()) RETURNS uuid
    LANGUAGE sql PARALLEL SAFE
    AS $$
    SELECT (
               overlay(
                   right(lpad(to_hex((extract(epoch FROM at) * 4096000)::bigint), 16, '0'), 15)
                   PLACING '7' FROM 13 FOR 0
               )
               || substring(gen_random_uuid()::text FROM 20)
           )::uuid
$$;

CREATE TABLE public.deliveries (
    workspace_id uuid NOT NULL,
    id uuid DEFAULT public.new_id() NOT NULL,
    webhook_id uuid NOT NULL,
    event_id uuid NOT NULL,
    state text DEFAULT 'waiting'::text NOT NULL,
    due_at timestamp with time zone NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    finished_at timestamp with time zone,
    CONSTRAINT deliveries_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'delivered'::text, 'failed'::text])))
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='1000');

CREATE FUNCTION public.delivery_json(delivery public.deliveries) RETURNS json
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT row_to_json(
               ROW(
                   delivery.id,
                   'evt_' || replace(event.id::text, '-', ''),
                   event.type,
                   iso(event.created_at),
                   delivery.state,
                   CASE
                       WHEN delivery.state = 'waiting' AND webhook.disabled_at IS NULL
                       THEN iso(greatest(delivery.due_at, webhook.backoff_until))
                   END,
                   (
                       SELECT json_list(
                                  array_agg(
                                      row_to_json(
                                          ROW(
                                              iso(attempt.at),
                                              attempt.status,
                                              attempt.milliseconds,
                                              -- The text after the colon is for operators only: it
                                              -- can name an address inside their network.
                                              split_part(attempt.error, ':', 1),
                                              attempt.answer
                                          )::attempt_document
                                      )
                                      ORDER BY attempt.number
                                  )
                              )
                         FROM (
                              SELECT attempt.*
                                FROM attempts AS attempt
                               WHERE attempt.workspace_id = delivery.workspace_id
                                 AND attempt.delivery_id = delivery.id
                               ORDER BY attempt.number DESC
                               LIMIT 20
                              ) AS attempt
                   )
               )::delivery_document
           )
      FROM events AS event
      JOIN webhooks AS webhook ON webhook.workspace_id = event.workspace_id
     WHERE event.workspace_id = delivery.workspace_id
       AND event.id = delivery.event_id
       AND webhook.id = delivery.webhook_id
$$;

CREATE FUNCTION public.end_membership() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO former_members (workspace_id, user_id)
    SELECT workspace.id, person.id
      FROM workspaces AS workspace
     CROSS JOIN users AS person
     WHERE workspace.id = OLD.workspace_id
       AND person.id = OLD.user_id
        ON CONFLICT DO NOTHING;
    UPDATE tokens AS token
       SET revoked_at = now()
     WHERE token.user_id = OLD.user_id
       AND token.workspace_id = OLD.workspace_id
       AND token.revoked_at IS NULL;
    DELETE FROM usage AS counted
     WHERE counted.workspace_id = OLD.workspace_id
       AND counted.subject = OLD.user_id::text;
    DELETE FROM idempotency_keys AS stored
     USING (
           SELECT OLD.workspace_id AS workspace_id
            UNION ALL
           SELECT '00000000-0000-0000-0000-000000000000'
            UNION ALL
           SELECT member.workspace_id
             FROM members AS member
            WHERE member.user_id = OLD.user_id
           ) AS used
     WHERE stored.workspace_id = used.workspace_id
       AND stored.user_id = OLD.user_id
       AND (
               stored.workspace_id = OLD.workspace_id
               OR stored.body LIKE '%' || OLD.workspace_id || '%'
           );
    RETURN NULL;
END
$$;

CREATE FUNCTION public.end_of_day(day date, workspace_id uuid) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    RETURN beginning_of_day(
               day + 1,
               coalesce(
                   (
                       SELECT workspace.timezone
                         FROM workspaces AS workspace
                        WHERE workspace.id = end_of_day.workspace_id
                   ),
                   'UTC'
               )
           ) - interval '1 millisecond';
END
$$;

CREATE FUNCTION public.event_body(id uuid, type text, workspace_id uuid, actor_id uuid, changed json, data json) RETURNS text
    LANGUAGE sql STABLE
    AS $$
    SELECT event_text(id, type, workspace_id, actor_id, changed, data, '{}')
$$;

CREATE FUNCTION public.event_text(id uuid, type text, workspace_id uuid, actor_id uuid, changed json, data json, previous json) RETURNS text
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

CREATE FUNCTION public.first_version(type text, workspace_id uuid, id uuid, version integer DEFAULT 1) RETURNS integer
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF id IS NULL THEN
        RETURN version;
    END IF;
    IF type = 'meeting' THEN
        PERFORM FROM meetings AS meeting
          WHERE meeting.workspace_id = first_version.workspace_id
            AND meeting.id = first_version.id
            FOR KEY SHARE;
    ELSIF has_all_locks() THEN
        PERFORM FROM tasks AS task
          WHERE task.workspace_id = first_version.workspace_id
            AND task.id = first_version.id;
    ELSE
        PERFORM FROM tasks AS task
          WHERE task.workspace_id = first_version.workspace_id
            AND task.id = first_version.id
            FOR KEY SHARE;
    END IF;
    IF FOUND THEN
        RAISE unique_violation USING CONSTRAINT = type || 's_pkey';
    END IF;
    RETURN (
        SELECT greatest(first_version.version, max(deleted.version) + 1)
          FROM deleted_versions AS deleted
         WHERE deleted.workspace_id = first_version.workspace_id
           AND deleted.id = first_version.id
    );
END
$$;

CREATE FUNCTION public.forget_deleted_versions() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM deleted_versions AS deleted
     WHERE deleted.workspace_id = OLD.id;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.from_millis(millis bigint) RETURNS timestamp with time zone
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT timestamptz '1970-01-01T00:00:00Z'
         + millis / 1000 * interval '1 second'
         + millis % 1000 * interval '1 millisecond'
$$;

CREATE FUNCTION public.has_all_locks() RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(current_setting('service.has_all_locks', true) = 'on', false)
$$;

CREATE FUNCTION public.hold_position(workspace_id uuid) RETURNS void
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

CREATE FUNCTION public.id_cursor(id uuid) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT replace(id::text, '-', '')
$$;

CREATE FUNCTION public.in_order(lower_bound text, upper_bound text, workspace_id uuid) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(
               time_bound(lower_bound, workspace_id) < time_bound(upper_bound, workspace_id), true
           )
$$;

CREATE FUNCTION public.is_any(item text, list text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE cardinality(list)
               WHEN 1 THEN item = list[1]
               ELSE list IS NULL OR item = ANY (list)
           END
$$;

CREATE FUNCTION public.now_ms() RETURNS timestamp with time zone
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT date_trunc('milliseconds', now())
$$;

CREATE TABLE public.tokens (
    id uuid DEFAULT public.new_id() NOT NULL,
    user_id uuid NOT NULL,
    kind text NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    scope text DEFAULT 'write'::text NOT NULL,
    hash bytea NOT NULL,
    created_at public.timestamp_ms DEFAULT public.now_ms() NOT NULL,
    last_used_at timestamp with time zone,
    expires_at public.timestamp_ms,
    revoked_at timestamp with time zone,
    workspace_id uuid,
    CONSTRAINT "name must have at most 120 characters" CHECK ((length(name) <= 120)),
    CONSTRAINT tokens_hash_check CHECK ((length(hash) = 32)),
    CONSTRAINT tokens_kind_check CHECK ((kind = ANY (ARRAY['api'::text, 'session'::text]))),
    CONSTRAINT tokens_scope_check CHECK ((scope = ANY (ARRAY['read'::text, 'write'::text])))
);

CREATE FUNCTION public.is_live(token public.tokens) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT token.revoked_at IS NULL AND (token.expires_at IS NULL OR token.expires_at > now())
$$;

CREATE FUNCTION public.is_metadata(metadata jsonb) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    AS $_$
BEGIN
    IF octet_length(json_strip_nulls(metadata::json)::text) > 16384 THEN
        RAISE check_violation
              USING CONSTRAINT = 'metadata must have at most 16384 bytes of JSON';
    ELSIF jsonb_typeof(metadata) <> 'object' THEN
        RETURN false;
    ELSIF (SELECT count(*) FROM jsonb_object_keys(metadata)) > 50 THEN
        RAISE check_violation USING CONSTRAINT = 'metadata must have at most 50 pairs';
    END IF;
    RETURN NOT EXISTS (
        SELECT
          FROM jsonb_each(metadata) AS pair (name, item)
         WHERE name !~ '^[A-Za-z0-9_.:-]{1,40}$'
            OR jsonb_typeof(item) <> 'string'
            OR length(item #>> '{}') NOT BETWEEN 1 AND 500
    );
END
$_$;

CREATE FUNCTION public.iso(at timestamp with time zone) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

CREATE FUNCTION public.json_join(one json, other json) RETURNS json
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT (left(one::text, -1) || ',' || substr(other::text, 2))::json
$$;

CREATE FUNCTION public.json_list(items json[]) RETURNS json
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT coalesce(array_to_json(items), '[]')
$$;

CREATE FUNCTION public.keep_completed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE check_violation USING CONSTRAINT = 'status must stay completed';
END
$$;

CREATE FUNCTION public.keep_deleted_version() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF pg_trigger_depth() = 1 THEN
        INSERT INTO deleted_versions (workspace_id, id, version)
        VALUES (OLD.workspace_id, OLD.id, OLD.version);
    END IF;
    RETURN OLD;
END
$$;

CREATE FUNCTION public.keyed_cursor(key bigint, id uuid) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT key::text || '.' || replace(id::text, '-', '')
$$;

CREATE FUNCTION public.knowledge_words(workspace_id uuid, title text, content text, tags text[]) RETURNS tsvector
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT array_to_tsvector(ARRAY['workspace:' || workspace_id])
        || setweight(to_tsvector('english', title), 'A')
        || setweight(to_tsvector('english', array_to_string(tags, ' ')), 'B')
        || setweight(to_tsvector('english', content), 'C')
$$;

CREATE FUNCTION public.longest(list text[]) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT coalesce(max(length(item)), 0) FROM unnest(list) AS item
$$;

CREATE TABLE public.knowledge (
    workspace_id uuid NOT NULL,
    id uuid DEFAULT public.new_id() NOT NULL,
    title text NOT NULL,
    content text DEFAULT ''::text NOT NULL,
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    created_at public.timestamp_ms DEFAULT public.now_ms() NOT NULL,
    updated_at public.timestamp_ms DEFAULT public.now_ms() NOT NULL,
    words tsvector GENERATED ALWAYS AS (public.knowledge_words(workspace_id, title, content, tags)) STORED NOT NULL,
    CONSTRAINT "content must have at most 65536 characters" CHECK ((length(content) <= 65536)),
    CONSTRAINT "tags must be at most 50 of 120 characters" CHECK (((cardinality(tags) <= 50) AND (public.longest(tags) <= 120))),
    CONSTRAINT "title must have 1 to 500 characters" CHECK (((length(title) >= 1) AND (length(title) <= 500)))
);
ALTER TABLE ONLY public.knowledge ALTER COLUMN tags SET STORAGE EXTERNAL;

CREATE FUNCTION public.knowledge_json(entry public.knowledge) RETURNS json
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT row_to_json(
               ROW(
                   entry.id,
                   entry.title,
                   entry.content,
                   entry.tags,
                   iso(entry.created_at),
                   iso(entry.updated_at)
               )::knowledge_document
           )
$$;

CREATE FUNCTION public.last_editor(updated_by uuid, created_by uuid, version integer, created_at timestamp with time zone, updated_at timestamp with time zone) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE
               WHEN updated_by IS NULL
                AND version = 1
                AND coalesce(updated_at = created_at, updated_at IS NULL)
               THEN created_by
               ELSE updated_by
           END
$$;

CREATE FUNCTION public.last_row(sizes integer[], bytes bigint, max_rows integer) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE
               WHEN bytes > 1048576 THEN rows_within_1_mib(sizes[:max_rows])
               WHEN cardinality(sizes) > max_rows THEN max_rows
           END
$$;

CREATE FUNCTION public.load_meetings(rows json) RETURNS void
    LANGUAGE sql
    AS $$
    INSERT INTO meetings (
               workspace_id, id, title, start_time, end_time, platform, attendees, agenda, notes,
               status, summary, action_items, decisions, created_by, created_at, updated_at,
               version, updated_by, updated_by_version, metadata
           )
    SELECT item.workspace_id,
           coalesce(item.id, new_id(coalesce(item.created_at, clock_timestamp()))),
           item.title,
           item.start_time,
           item.end_time,
           item.platform,
           item.attendees,
           item.agenda,
           item.notes,
           item.status,
           item.summary,
           coalesce(item.action_items, '{}'),
           coalesce(item.decisions, '{}'),
           item.created_by,
           coalesce(item.created_at, now_ms()),
           coalesce(item.updated_at, item.created_at, now_ms()),
           first,
           last_editor(
               item.updated_by, item.created_by, item.version, item.created_at, item.updated_at
           ),
           first,
           nullif(item.metadata, '{}')
      FROM json_populate_recordset(NULL::meetings, rows) WITH ORDINALITY AS item
     CROSS JOIN LATERAL first_version('meeting', item.workspace_id, item.id, item.version) AS first
     ORDER BY item.ordinality
$$;

CREATE FUNCTION public.load_tasks(rows json) RETURNS void
    LANGUAGE sql
    AS $$
    INSERT INTO tasks (
               workspace_id, id, title, description, status, priority, due_date, due_day,
               assignee_id, project_id, parent_id, created_by, created_at, updated_at, completed_at,
               version, updated_by, updated_by_version, completed_by, metadata
           )
    SELECT item.workspace_id,
           coalesce(item.id, new_id(coalesce(item.created_at, clock_timestamp()))),
           item.title,
           item.description,
           item.status,
           item.priority,
           coalesce(item.due_date, end_of_day(item.due_day, item.workspace_id)),
           item.due_day,
           item.assignee_id,
           item.project_id,
           item.parent_id,
           item.created_by,
           coalesce(item.created_at, now_ms()),
           coalesce(item.updated_at, item.created_at, now_ms()),
           CASE
               WHEN item.status = 'done'
               THEN coalesce(item.completed_at, item.updated_at, item.created_at, now_ms())
           END,
           first,
           last_editor(
               item.updated_by, item.created_by, item.version, item.created_at, item.updated_at
           ),
           first,
           item.completed_by,
           nullif(item.metadata, '{}')
      FROM json_populate_recordset(NULL::tasks, rows) WITH ORDINALITY AS item
     CROSS JOIN LATERAL first_version('task', item.workspace_id, item.id, item.version) AS first
     ORDER BY item.ordinality
$$;

CREATE FUNCTION public.lock_and_count_tokens(user_id uuid, session_id uuid) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM FROM users AS person
      WHERE person.id = lock_and_count_tokens.user_id
        AND person.deactivated_at IS NULL
        FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM FROM tokens AS session
      WHERE session.id = lock_and_count_tokens.session_id
        AND session.user_id = lock_and_count_tokens.user_id
        AND session.kind = 'session'
        AND is_live(session)
        FOR SHARE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT count(*)
          FROM tokens AS token
         WHERE token.user_id = lock_and_count_tokens.user_id
           AND token.kind = 'api'
           AND is_live(token)
    );
END
$$;

CREATE FUNCTION public.lock_and_count_webhooks(workspace_id uuid) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM FROM workspaces AS workspace
      WHERE workspace.id = lock_and_count_webhooks.workspace_id
        FOR NO KEY UPDATE;
    -- In a volatile function each statement has its own snapshot, so this one sees what other
    -- transactions have committed while the lock waited for them.
    RETURN (
        SELECT count(*)
          FROM webhooks AS webhook
         WHERE webhook.workspace_id = lock_and_count_webhooks.workspace_id
           AND webhook.deleted_at IS NULL
    );
END
$$;

CREATE FUNCTION public.lock_assigned_tasks() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM FROM tasks AS task
      WHERE task.workspace_id = OLD.workspace_id
        AND task.assignee_id = OLD.user_id
      ORDER BY task.id
        FOR NO KEY UPDATE;
    RETURN OLD;
END
$$;

CREATE FUNCTION public.lock_member(user_id uuid, only_workspace_id uuid, workspace_id uuid, member_id uuid, new_role text) RETURNS TABLE(role text, permitted boolean, has_owner boolean)
    LANGUAGE sql
    AS $$
    WITH locked AS MATERIALIZED (
        SELECT member.user_id, member.role
          FROM members AS member
         WHERE member.workspace_id = lock_member.workspace_id
           AND (member.role = 'owner'
                OR member.user_id IN (lock_member.user_id, lock_member.member_id))
           AND acting_role(
                   lock_member.user_id, lock_member.only_workspace_id, lock_member.workspace_id
               ) IS NOT NULL
         ORDER BY member.user_id
           FOR UPDATE
    ), acting AS (
        SELECT locked.role
          FROM locked
         WHERE locked.user_id = lock_member.user_id
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
     WHERE member.user_id = lock_member.member_id
$$;

CREATE TABLE public.mail (
    workspace_id uuid NOT NULL,
    id uuid DEFAULT public.new_id() NOT NULL,
    user_id uuid NOT NULL,
    sender text NOT NULL,
    recipients text[] DEFAULT '{}'::text[] NOT NULL,
    subject text DEFAULT ''::text NOT NULL,
    snippet text DEFAULT ''::text NOT NULL,
    read boolean DEFAULT false NOT NULL,
    received_at public.timestamp_ms NOT NULL,
    CONSTRAINT "from must have 3 to 254 characters" CHECK (((length(sender) >= 3) AND (length(sender) <= 254))),
    CONSTRAINT "snippet must have at most 2000 characters" CHECK ((length(snippet) <= 2000)),
    CONSTRAINT "subject must have at most 500 characters" CHECK ((length(subject) <= 500)),
    CONSTRAINT "to must be at most 200 addresses of 254 characters" CHECK (((cardinality(recipients) <= 200) AND (public.longest(recipients) <= 254)))
);
ALTER TABLE ONLY public.mail ALTER COLUMN recipients SET STORAGE EXTERNAL;

CREATE FUNCTION public.mail_json(mail public.mail) RETURNS json
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT row_to_json(
               ROW(
                   mail.id,
                   mail.sender,
                   mail.recipients,
                   mail.subject,
                   mail.snippet,
                   mail.read,
                   iso(mail.received_at)
               )::mail_document
           )
$$;

CREATE FUNCTION public.manages(user_id uuid, workspace_id uuid) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT coalesce(acting_role(user_id, workspace_id, workspace_id) IN ('owner', 'admin'), false)
$$;

CREATE FUNCTION public.manages_webhook(user_id uuid, workspace_id uuid, webhook_id uuid) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT manages(manages_webhook.user_id, manages_webhook.workspace_id)
           AND EXISTS (
                  SELECT
                    FROM webhooks AS webhook
                   WHERE webhook.workspace_id = manages_webhook.workspace_id
                     AND webhook.id = manages_webhook.webhook_id
                     AND webhook.deleted_at IS NULL
              )
$$;

CREATE TABLE public.meetings (
    workspace_id uuid NOT NULL,
    id uuid DEFAULT public.new_id() NOT NULL,
    title text NOT NULL,
    start_time public.timestamp_ms NOT NULL,
    end_time public.timestamp_ms NOT NULL,
    platform text,
    attendees text[] DEFAULT '{}'::text[] NOT NULL,
    agenda text,
    notes text,
    status text DEFAULT 'scheduled'::text NOT NULL,
    summary text,
    action_items text[] DEFAULT '{}'::text[] NOT NULL,
    decisions text[] DEFAULT '{}'::text[] NOT NULL,
    created_by uuid NOT NULL,
    created_at public.timestamp_ms DEFAULT public.now_ms() NOT NULL,
    updated_at public.timestamp_ms DEFAULT public.now_ms() NOT NULL,
    version integer DEFAULT 1 NOT NULL,
    updated_by uuid,
    updated_by_version integer,
    metadata public.metadata,
    CONSTRAINT "actionItems must be at most 200 texts of 2000 characters" CHECK (((cardinality(action_items) <= 200) AND (public.longest(action_items) <= 2000))),
    CONSTRAINT "actionItems need status completed" CHECK (((status = 'completed'::text) OR (action_items = '{}'::text[]))),
    CONSTRAINT "agenda must have at most 65536 characters" CHECK ((length(agenda) <= 65536)),
    CONSTRAINT "attendees must be at most 200 addresses of 254 characters" CHECK (((cardinality(attendees) <= 200) AND (public.longest(attendees) <= 254))),
    CONSTRAINT "decisions must be at most 200 texts of 2000 characters" CHECK (((cardinality(decisions) <= 200) AND (public.longest(decisions) <= 2000))),
    CONSTRAINT "decisions need status completed" CHECK (((status = 'completed'::text) OR (decisions = '{}'::text[]))),
    CONSTRAINT "endTime must be after startTime" CHECK (((end_time)::timestamp with time zone > (start_time)::timestamp with time zone)),
    CONSTRAINT "notes must have at most 65536 characters" CHECK ((length(notes) <= 65536)),
    CONSTRAINT "platform must be one of: google_meet, zoom, teams, in_person" CHECK ((platform = ANY (ARRAY['google_meet'::text, 'zoom'::text, 'teams'::text, 'in_person'::text]))),
    CONSTRAINT "status must be one of: scheduled, completed" CHECK ((status = ANY (ARRAY['scheduled'::text, 'completed'::text]))),
    CONSTRAINT "summary must have at most 65536 characters" CHECK ((length(summary) <= 65536)),
    CONSTRAINT "summary needs status completed" CHECK (((status = 'completed'::text) OR (summary IS NULL))),
    CONSTRAINT "title must have 1 to 500 characters" CHECK (((length(title) >= 1) AND (length(title) <= 500)))
);
ALTER TABLE ONLY public.meetings ALTER COLUMN attendees SET STORAGE EXTERNAL;
ALTER TABLE ONLY public.meetings ALTER COLUMN metadata SET STORAGE EXTERNAL;

CREATE FUNCTION public.matches(meeting public.meetings, filters jsonb, workspace_id uuid) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT meeting.start_time >= coalesce(
               time_bound(filters ->> 'starts_from', workspace_id), '-infinity'
           )
       AND meeting.start_time < coalesce(
               time_bound(filters ->> 'starts_before', workspace_id), 'infinity'
           )
$$;

CREATE TABLE public.tasks (
    workspace_id uuid NOT NULL,
    id uuid DEFAULT public.new_id() NOT NULL,
    title public.task_title NOT NULL,
    description public.task_description,
    status public.task_status DEFAULT 'todo'::text NOT NULL,
    priority public.task_priority DEFAULT 'medium'::text NOT NULL,
    due_date public.due_date,
    due_day public.due_day,
    assignee_id uuid,
    project_id public.project_id,
    parent_id uuid,
    created_by uuid NOT NULL,
    created_at public.timestamp_ms DEFAULT public.now_ms() NOT NULL,
    updated_at public.timestamp_ms DEFAULT public.now_ms() NOT NULL,
    completed_at public.timestamp_ms,
    version integer DEFAULT 1 NOT NULL,
    updated_by uuid,
    updated_by_version integer,
    completed_by uuid,
    metadata public.metadata
)
WITH (fillfactor='90');
ALTER TABLE ONLY public.tasks ALTER COLUMN metadata SET STORAGE EXTERNAL;

CREATE FUNCTION public.matches(task public.tasks, filters jsonb, user_id uuid, workspace_id uuid) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT is_any(task.status, string_to_array(filters ->> 'status', ','))
       AND is_any(task.priority, string_to_array(filters ->> 'priority', ','))
       AND CASE filters ->> 'assignee'
               WHEN 'none' THEN task.assignee_id IS NULL
               WHEN 'me' THEN task.assignee_id = user_id
               ELSE filters ->> 'assignee' IS NULL
                    OR task.assignee_id = (filters ->> 'assignee')::uuid
           END
       AND (filters ->> 'project_id' IS NULL OR task.project_id = filters ->> 'project_id')
       AND CASE filters ->> 'parent_id'
               WHEN 'none' THEN task.parent_id IS NULL
               ELSE filters ->> 'parent_id' IS NULL
                    OR task.parent_id = (filters ->> 'parent_id')::uuid
           END
       AND CASE filters ->> 'completed_by'
               WHEN 'me' THEN task.completed_by = user_id
               ELSE filters ->> 'completed_by' IS NULL
                    OR task.completed_by = (filters ->> 'completed_by')::uuid
           END
       -- In the index the status precedes the date, so the condition names every status.
       AND (NOT filters ?| '{due_after,due_before}'
            OR task.status IN ('todo', 'in_progress', 'done')
               AND task.due_date >= coalesce(
                       time_bound(filters ->> 'due_after', workspace_id), '-infinity'
                   )
               AND task.due_date < coalesce(
                       time_bound(filters ->> 'due_before', workspace_id), 'infinity'
                   ))
       -- Only a task with the status done has a time of completion.
       AND (NOT filters ?| '{completed_after,completed_before}'
            OR is_any('done', string_to_array(filters ->> 'status', ','))
               AND task.status = 'done'
               AND task.completed_at >= coalesce(
                       time_bound(filters ->> 'completed_after', workspace_id), '-infinity'
                   )
               AND task.completed_at < coalesce(
                       time_bound(filters ->> 'completed_before', workspace_id), 'infinity'
                   ))
$$;

CREATE FUNCTION public.matches(task public.tasks, priorities text[], assignee text, user_id uuid, project_id text, parent_id text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT is_any(task.priority, priorities)
       AND (assignee IS NULL
            OR CASE assignee
                   WHEN 'none' THEN task.assignee_id IS NULL
                   WHEN 'me' THEN task.assignee_id = user_id
                   ELSE task.assignee_id = assignee::uuid
               END)
       AND (matches.project_id IS NULL OR task.project_id = matches.project_id)
       AND (matches.parent_id IS NULL
            OR CASE matches.parent_id
                   WHEN 'none' THEN task.parent_id IS NULL
                   ELSE task.parent_id = matches.parent_id::uuid
               END)
$$;

CREATE FUNCTION public.meeting_details(meeting public.meetings) RETURNS json
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT CASE meeting.status
               WHEN 'completed' THEN meeting_with_outcome(meeting)
               ELSE meeting_json(meeting)
           END
$$;

CREATE FUNCTION public.meeting_json(meeting public.meetings) RETURNS json
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT row_to_json(
               ROW(
                   meeting.id,
                   meeting.workspace_id,
                   meeting.title,
                   iso(meeting.start_time),
                   iso(meeting.end_time),
                   meeting.platform,
                   meeting.attendees,
                   meeting.agenda,
                   meeting.notes,
                   meeting.status,
                   meeting.created_by,
                   iso(meeting.created_at),
                   iso(meeting.updated_at),
                   meeting.version,
                   CASE
                       WHEN meeting.updated_by_version = meeting.version THEN meeting.updated_by
                   END,
                   metadata_json(meeting.metadata)
               )::meeting_document_3
           )
$$;

CREATE FUNCTION public.meeting_of_caller(id uuid, user_id uuid, only_workspace_id uuid, active_workspace_id uuid) RETURNS SETOF public.meetings
    LANGUAGE sql STABLE
    AS $$
    SELECT meeting.*
      FROM meetings AS meeting
      JOIN memberships(meeting_of_caller.user_id, only_workspace_id) AS member
        ON member.workspace_id = meeting.workspace_id
     WHERE meeting.id = meeting_of_caller.id
     ORDER BY coalesce(meeting.workspace_id <> active_workspace_id, true), meeting.workspace_id
     LIMIT 1
$$;

CREATE FUNCTION public.meeting_with_outcome(meeting public.meetings) RETURNS json
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT json_join(
               meeting_json(meeting),
               row_to_json(
                   ROW(
                       meeting.summary,
                       meeting.action_items,
                       meeting.decisions
                   )::outcome_document
               )
           )
$$;

CREATE TABLE public.users (
    id uuid DEFAULT public.new_id() NOT NULL,
    email text NOT NULL,
    name text NOT NULL,
    active_workspace_id uuid,
    created_at public.timestamp_ms DEFAULT public.now_ms() NOT NULL,
    deactivated_at public.timestamp_ms,
    CONSTRAINT "email must have 3 to 254 characters" CHECK (((length(email) >= 3) AND (length(email) <= 254))),
    CONSTRAINT "name must have 1 to 120 characters" CHECK (((length(name) >= 1) AND (length(name) <= 120))),
    CONSTRAINT "name must not contain control or bidirectional characters" CHECK ((name !~ '[\u0001-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]'::text))
);

CREATE FUNCTION public.member_json(account public.users, role text, joined_at timestamp with time zone) RETURNS json
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT row_to_json(
               ROW(
                   account.id,
                   account.name,
                   account.email,
                   member_json.role,
                   iso(member_json.joined_at)
               )::member_document
           )
$$;

CREATE FUNCTION public.members_of(object json, names json) RETURNS json
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT (
               '{'
               || coalesce(string_agg(to_json(name) || ':' || value, ',' ORDER BY number), '')
               || '}'
           )::json
      FROM json_array_elements_text(names) WITH ORDINALITY AS listed (name, number)
      JOIN json_each(object) AS member (name, value) USING (name)
$$;

CREATE TABLE public.members (
    workspace_id uuid NOT NULL,
    user_id uuid NOT NULL,
    role text DEFAULT 'member'::text NOT NULL,
    joined_at public.timestamp_ms DEFAULT public.now_ms() NOT NULL,
    CONSTRAINT "role must be one of: owner, admin, member" CHECK ((role = ANY (ARRAY['owner'::text, 'admin'::text, 'member'::text])))
);

CREATE FUNCTION public.memberships(user_id uuid, only_workspace_id uuid) RETURNS SETOF public.members
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT member.*
      FROM members AS member
     WHERE member.user_id = memberships.user_id
       AND member.workspace_id = coalesce(memberships.only_workspace_id, member.workspace_id)
$$;

CREATE FUNCTION public.metadata_json(metadata jsonb) RETURNS json
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT coalesce(json_strip_nulls(metadata::json), '{}')
$$;

CREATE FUNCTION public.named_users(workspace_id uuid) RETURNS SETOF uuid
    LANGUAGE sql STABLE
    AS $$
    SELECT unnest(
               ARRAY[
                   task.created_by,
                   CASE WHEN task.updated_by_version = task.version THEN task.updated_by END,
                   task.completed_by
               ]
           )
      FROM tasks AS task
     WHERE task.workspace_id = named_users.workspace_id
     UNION
    SELECT unnest(
               ARRAY[
                   meeting.created_by,
                   CASE
                       WHEN meeting.updated_by_version = meeting.version THEN meeting.updated_by
                   END
               ]
           )
      FROM meetings AS meeting
     WHERE meeting.workspace_id = named_users.workspace_id
$$;

CREATE FUNCTION public.next_dated_version() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF current_setting('service.keeps_versions', true) = 'on' THEN
        RETURN NEW;
    END IF;
    NEW.version := OLD.version + 1;
    IF NEW.updated_at = OLD.updated_at THEN
        NEW.updated_at := now_ms();
    END IF;
    NEW.updated_by := nullif(current_setting('service.actor_id', true), '')::uuid;
    NEW.updated_by_version := NEW.version;
    RETURN NEW;
END
$$;

CREATE FUNCTION public.next_pages(pruned regclass, after text, OUT first tid, OUT beyond tid, OUT next text) RETURNS record
    LANGUAGE sql STABLE
    AS $$
    SELECT format('(%s,0)', page)::tid,
           format('(%s,0)', page + 128)::tid,
           CASE
               WHEN page + 128
                    < pg_relation_size(pruned) / current_setting('block_size')::integer
               THEN (page + 128)::text
           END
      FROM CAST(coalesce(nullif(after, ''), '0') AS bigint) AS page
$$;

CREATE FUNCTION public.next_version() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF current_setting('service.keeps_versions', true) = 'on' THEN
        RETURN NEW;
    END IF;
    NEW.version := OLD.version + 1;
    RETURN NEW;
END
$$;

CREATE FUNCTION public.page_length(sizes integer[], max_rows integer) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
BEGIN
    RETURN (SELECT last_row(sizes, sum(size), max_rows) FROM unnest(sizes) AS size);
END
$$;

CREATE FUNCTION public.person_json(account public.users, member public.members) RETURNS json
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT row_to_json(
               ROW(
                   account.id,
                   account.name,
                   CASE WHEN member.user_id IS NOT NULL THEN account.email END,
                   member.role,
                   iso(member.joined_at)
               )::member_document
           )
$$;

CREATE FUNCTION public.position_key(workspace_id uuid) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT hashtext(workspace_id::text)::bigint << 48
$$;

CREATE FUNCTION public.record_completer() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NEW.status <> OLD.status THEN
        NEW.completed_by := CASE
            WHEN NEW.status = 'done' AND NEW.updated_by_version = NEW.version THEN NEW.updated_by
        END;
    END IF;
    RETURN NEW;
END
$$;

CREATE FUNCTION public.revoke_tokens(user_id uuid) RETURNS SETOF uuid
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM FROM users AS person
      WHERE person.id = revoke_tokens.user_id
        FOR NO KEY UPDATE;
    RETURN QUERY
    UPDATE tokens AS token
       SET revoked_at = now()
     WHERE token.user_id = revoke_tokens.user_id
       AND token.revoked_at IS NULL
 RETURNING token.id;
END
$$;

CREATE FUNCTION public.rows_within_1_mib(sizes integer[]) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT greatest(1, count(*))::integer
      FROM (
           SELECT sum(coalesce(size, 0)) OVER (ORDER BY number) AS bytes
             FROM unnest(sizes) WITH ORDINALITY AS item (size, number)
           ) AS running
     WHERE bytes <= 1048576
$$;

CREATE FUNCTION public.settled_position(workspace_id uuid) RETURNS bigint
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

CREATE TABLE public.webhooks (
    workspace_id uuid NOT NULL,
    id uuid DEFAULT public.new_id() NOT NULL,
    url text NOT NULL,
    events text[] DEFAULT '{}'::text[] NOT NULL,
    secret_number integer DEFAULT 1 NOT NULL,
    key_fingerprint text NOT NULL,
    created_at public.timestamp_ms DEFAULT public.now_ms() NOT NULL,
    failing_since timestamp with time zone,
    backoff_until timestamp with time zone,
    disabled_at timestamp with time zone,
    disabled_reason text,
    gap_since timestamp with time zone,
    deleted_at timestamp with time zone,
    version integer DEFAULT 1 NOT NULL,
    CONSTRAINT "a deleted webhook is disabled" CHECK (((deleted_at IS NULL) OR (disabled_at IS NOT NULL))),
    CONSTRAINT "event must be a type of event" CHECK ((events <@ ARRAY['task.created'::text, 'task.updated'::text, 'task.deleted'::text, 'meeting.created'::text, 'meeting.updated'::text, 'meeting.completed'::text, 'meeting.deleted'::text, 'ai.suggestion.created'::text])),
    CONSTRAINT "url must have at most 2048 characters" CHECK ((length(url) <= 2048))
);

CREATE FUNCTION public.show_webhook(webhook public.webhooks) RETURNS public.webhook_document
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT webhook.id,
           webhook.url,
           -- NULL means all types.
           nullif(webhook.events, '{}'),
           CASE
               WHEN webhook.disabled_at IS NOT NULL THEN 'disabled'
               WHEN webhook.failing_since IS NOT NULL THEN 'failing'
               ELSE 'enabled'
           END,
           webhook.disabled_reason,
           iso(webhook.failing_since),
           iso(webhook.gap_since),
           due.waiting,
           CASE
               WHEN webhook.disabled_at IS NULL AND due.waiting > 0
               THEN iso(greatest(due.due_at, webhook.backoff_until))
           END,
           iso(webhook.created_at),
           webhook.version
      FROM (
           SELECT count(*) AS waiting, min(delivery.due_at) AS due_at
             FROM deliveries AS delivery
            WHERE delivery.workspace_id = webhook.workspace_id
              AND delivery.webhook_id = webhook.id
              AND delivery.state = 'waiting'
           ) AS due
$$;

CREATE FUNCTION public.signing_secrets(webhook public.webhooks, OUT secret_numbers integer[], OUT key_fingerprints text[]) RETURNS record
    LANGUAGE sql STABLE
    AS $$
    SELECT array_agg(secret.number ORDER BY secret.number DESC),
           array_agg(secret.key_fingerprint ORDER BY secret.number DESC)
      FROM (
           SELECT webhook.secret_number AS number, webhook.key_fingerprint
            UNION ALL
           SELECT previous.number, previous.key_fingerprint
             FROM previous_secrets AS previous
            WHERE previous.workspace_id = webhook.workspace_id
              AND previous.webhook_id = webhook.id
              AND previous.expires_at > now()
           ) AS secret
$$;

CREATE TABLE public.suggestions (
    workspace_id uuid NOT NULL,
    id uuid DEFAULT public.new_id() NOT NULL,
    kind text NOT NULL,
    title text NOT NULL,
    body text,
    task_id uuid,
    status text DEFAULT 'pending'::text NOT NULL,
    created_at public.timestamp_ms DEFAULT public.now_ms() NOT NULL,
    CONSTRAINT "body must have at most 65536 characters" CHECK ((length(body) <= 65536)),
    CONSTRAINT "kind must have 1 to 128 characters" CHECK (((length(kind) >= 1) AND (length(kind) <= 128))),
    CONSTRAINT "status must be one of: pending, accepted, dismissed" CHECK ((status = ANY (ARRAY['pending'::text, 'accepted'::text, 'dismissed'::text]))),
    CONSTRAINT "title must have 1 to 500 characters" CHECK (((length(title) >= 1) AND (length(title) <= 500)))
);

CREATE FUNCTION public.suggestion_json(suggestion public.suggestions) RETURNS json
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT row_to_json(
               ROW(
                   suggestion.id,
                   suggestion.kind,
                   suggestion.title,
                   suggestion.body,
                   suggestion.task_id,
                   suggestion.status,
                   iso(suggestion.created_at)
               )::suggestion_document
           )
$$;

CREATE FUNCTION public.task_json(task public.tasks) RETURNS json
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT row_to_json(
               ROW(
                   task.id,
                   task.workspace_id,
                   task.title,
                   task.description,
                   task.status,
                   task.priority,
                   iso(task.due_date),
                   task.due_day,
                   task.assignee_id,
                   task.project_id,
                   task.parent_id,
                   task.created_by,
                   iso(task.created_at),
                   iso(task.updated_at),
                   iso(task.completed_at),
                   task.version,
                   CASE
                       WHEN task.updated_by_version = task.version THEN task.updated_by
                   END,
                   task.completed_by,
                   metadata_json(task.metadata)
               )::task_document_3
           )
$$;

CREATE FUNCTION public.text_bytes(entry public.knowledge) RETURNS integer
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT octet_length(entry.content) + pg_column_size(entry.tags)
$$;

CREATE FUNCTION public.text_bytes(mail public.mail) RETURNS integer
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT octet_length(mail.snippet) + pg_column_size(mail.recipients)
$$;

CREATE FUNCTION public.text_bytes(meeting public.meetings) RETURNS integer
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT coalesce(octet_length(meeting.agenda), 0)
         + coalesce(octet_length(meeting.notes), 0)
         + pg_column_size(meeting.attendees)
         + coalesce(pg_column_size(meeting.metadata), 0)
$$;

CREATE FUNCTION public.text_bytes(suggestion public.suggestions) RETURNS integer
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT octet_length(suggestion.body)
$$;

CREATE FUNCTION public.text_bytes(task public.tasks) RETURNS integer
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT coalesce(octet_length(task.description), 0) + coalesce(pg_column_size(task.metadata), 0)
$$;

CREATE FUNCTION public.time_bound(bound text, workspace_id uuid) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    AS $$
    SELECT CASE length(bound)
               WHEN 10 THEN end_of_day(bound::date - 1, workspace_id) + interval '1 millisecond'
               ELSE bound::timestamptz
           END
$$;

CREATE FUNCTION public.to_millis(at timestamp with time zone) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT (extract(epoch FROM at) * 1000)::bigint
$$;

CREATE FUNCTION public.token_json(token public.tokens) RETURNS json
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT row_to_json(
               ROW(
                   token.id,
                   token.name,
                   token.scope,
                   iso(token.created_at),
                   iso(token.expires_at),
                   iso(token.last_used_at),
                   token.workspace_id
               )::token_document
           )
$$;

CREATE FUNCTION public.update_meeting(after public.meetings, user_id uuid) RETURNS public.meetings
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE meetings AS meeting
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
           version = meeting.version + 1,
           updated_by = user_id,
           updated_by_version = meeting.version + 1
     WHERE meeting.workspace_id = after.workspace_id
       AND meeting.id = after.id
 RETURNING meeting.*
      INTO after;
    RETURN after;
END
$$;

CREATE FUNCTION public.update_task(after public.tasks, changes jsonb, user_id uuid) RETURNS public.tasks
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF changes ?| '{assignee_id,parent_id}' AND NOT has_all_locks() THEN
        PERFORM FROM tasks AS parent
          WHERE parent.workspace_id = after.workspace_id
            AND parent.id = after.parent_id
            AND parent.id > after.id
            FOR SHARE;
        PERFORM set_config('service.has_all_locks', 'on', true);
    END IF;
    UPDATE tasks AS task
       SET title = after.title,
           description = after.description,
           status = after.status,
           priority = after.priority,
           due_date = after.due_date,
           -- A new timestamp comes without a day, so the old day is dropped. If a client sends a
           -- task back as it got it, the timestamp is the same, and the task keeps its day.
           due_day = CASE
               WHEN changes ? 'due_day' OR after.due_date = task.due_date THEN after.due_day
           END,
           assignee_id = after.assignee_id,
           project_id = after.project_id,
           parent_id = after.parent_id,
           metadata = after.metadata,
           completed_at = CASE
               WHEN after.status <> 'done' THEN NULL
               ELSE coalesce(task.completed_at, now_ms())
           END,
           updated_at = now_ms(),
           version = task.version + 1,
           updated_by = user_id,
           updated_by_version = task.version + 1
     WHERE task.workspace_id = after.workspace_id
       AND task.id = after.id
 RETURNING task.*
      INTO after;
    RETURN after;
END
$$;

CREATE FUNCTION public.usable_workspace(user_id uuid, only_workspace_id uuid, id uuid) RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT member.workspace_id
      FROM memberships(usable_workspace.user_id, usable_workspace.only_workspace_id) AS member
     WHERE member.workspace_id = usable_workspace.id
$$;

CREATE FUNCTION public.wait_for_writers(seconds double precision) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
    writers text[] := ARRAY(
        SELECT lock.virtualtransaction
          FROM pg_locks AS lock
         -- An update locks its rows before the function that changes them locks the table.
         WHERE lock.mode IN ('RowShareLock', 'RowExclusiveLock')
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

CREATE FUNCTION public.with_metadata(changes jsonb, metadata jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE jsonb_typeof(changes -> 'metadata')
               WHEN 'object' THEN jsonb_set(
                   changes,
                   '{metadata}',
                   coalesce(
                       nullif(
                           jsonb_strip_nulls(
                               coalesce(metadata, '{}') || (changes -> 'metadata')
                           ),
                           '{}'
                       ),
                       'null'
                   )
               )
               ELSE changes
           END
$$;

CREATE TABLE public.workspaces (
    id uuid DEFAULT public.new_id() NOT NULL,
    name text NOT NULL,
    slug text NOT NULL,
    plan text DEFAULT 'Starter'::text NOT NULL,
    timezone text DEFAULT 'UTC'::text NOT NULL,
    member_count integer DEFAULT 0 NOT NULL,
    created_at public.timestamp_ms DEFAULT public.now_ms() NOT NULL,
    version integer DEFAULT 1 NOT NULL,
    CONSTRAINT "members must be at most 10000 in a workspace" CHECK ((member_count <= 10000)),
    CONSTRAINT "name must have 1 to 120 characters" CHECK (((length(name) >= 1) AND (length(name) <= 120))),
    CONSTRAINT "slug must have 1 to 128 of: a-z 0-9 -" CHECK ((slug ~ '^[a-z0-9][a-z0-9-]{0,127}$'::text)),
    CONSTRAINT "timezone must have 1 to 128 characters" CHECK (((length(timezone) >= 1) AND (length(timezone) <= 128))),
    CONSTRAINT workspaces_timezone_check CHECK ((('2000-01-01 00:00:00+00'::timestamp with time zone AT TIME ZONE timezone) IS NOT NULL))
);

CREATE FUNCTION public.workspace_details(workspace public.workspaces) RETURNS json
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT json_join(
               workspace_json(workspace),
               row_to_json(ROW(workspace.timezone)::workspace_setting_document)
           )
$$;

CREATE FUNCTION public.workspace_json(workspace public.workspaces) RETURNS json
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT row_to_json(
               ROW(
                   workspace.id,
                   workspace.name,
                   workspace.slug,
                   workspace.plan,
                   workspace.member_count,
                   iso(workspace.created_at)
               )::workspace_document
           )
$$;

CREATE FUNCTION public.zone_name(timezone text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE timezone
               WHEN 'CET' THEN 'Europe/Brussels'
               WHEN 'EET' THEN 'Europe/Athens'
               WHEN 'MET' THEN 'Europe/Brussels'
               WHEN 'WET' THEN 'Europe/Lisbon'
               ELSE timezone
           END
$$;

CREATE TABLE public.attempts (
    workspace_id uuid NOT NULL,
    delivery_id uuid NOT NULL,
    number integer NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    status integer,
    milliseconds integer NOT NULL,
    error text,
    answer text
);

CREATE TABLE public.counters (
    series text NOT NULL,
    value double precision NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
)
WITH (fillfactor='50');

CREATE TABLE public.deleted_users (
    id uuid NOT NULL,
    deleted_at public.timestamp_ms
);

CREATE TABLE public.deleted_versions (
    workspace_id uuid NOT NULL,
    id uuid NOT NULL,
    version integer NOT NULL,
    deleted_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE UNLOGGED TABLE public.event_cursors (
    workspace_id uuid NOT NULL,
    "position" bigint NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    server_started timestamp with time zone
);

CREATE SEQUENCE public.event_positions
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE public.events (
    workspace_id uuid NOT NULL,
    id uuid NOT NULL,
    type text NOT NULL,
    body text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    "position" bigint DEFAULT nextval('public.event_positions'::regclass) NOT NULL
);

CREATE TABLE public.feeds (
    workspace_id uuid NOT NULL,
    history uuid DEFAULT gen_random_uuid() NOT NULL,
    complete_after bigint DEFAULT nextval('public.event_positions'::regclass) NOT NULL,
    ready boolean DEFAULT false NOT NULL,
    read_at timestamp with time zone
);

CREATE TABLE public.former_members (
    workspace_id uuid NOT NULL,
    user_id uuid NOT NULL
);

CREATE TABLE public.idempotency_keys (
    workspace_id uuid NOT NULL,
    user_id uuid NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    status integer,
    headers jsonb,
    body text,
    CONSTRAINT idempotency_keys_key_check CHECK (((length(key) >= 1) AND (length(key) <= 255)))
);

CREATE TABLE public.plans (
    name text NOT NULL,
    per_minute integer NOT NULL,
    per_day integer,
    CONSTRAINT plans_name_check CHECK (((length(name) >= 1) AND (length(name) <= 128))),
    CONSTRAINT plans_per_day_check CHECK ((per_day > 0)),
    CONSTRAINT plans_per_minute_check CHECK ((per_minute > 0))
);

CREATE TABLE public.previous_secrets (
    workspace_id uuid NOT NULL,
    webhook_id uuid NOT NULL,
    number integer NOT NULL,
    key_fingerprint text NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

CREATE TABLE public.processes (
    name text NOT NULL,
    speedups boolean,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    seen_at timestamp with time zone DEFAULT now() NOT NULL
)
WITH (fillfactor='50');

CREATE TABLE public.schema_functions (
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL,
    release text NOT NULL
);

CREATE TABLE public.schema_migrations (
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL,
    release text NOT NULL
);

ALTER TABLE ONLY public.attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (workspace_id, delivery_id, number);

ALTER TABLE ONLY public.counters
    ADD CONSTRAINT counters_pkey PRIMARY KEY (series);

ALTER TABLE ONLY public.deleted_users
    ADD CONSTRAINT deleted_users_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (workspace_id, id);

ALTER TABLE ONLY public.event_cursors
    ADD CONSTRAINT event_cursors_pkey PRIMARY KEY (workspace_id, "position", id);

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (workspace_id, id);

ALTER TABLE ONLY public.feeds
    ADD CONSTRAINT feeds_pkey PRIMARY KEY (workspace_id);

ALTER TABLE ONLY public.former_members
    ADD CONSTRAINT former_members_pkey PRIMARY KEY (workspace_id, user_id);

ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (workspace_id, user_id, key);

ALTER TABLE ONLY public.knowledge
    ADD CONSTRAINT knowledge_pkey PRIMARY KEY (workspace_id, id);

ALTER TABLE ONLY public.mail
    ADD CONSTRAINT mail_pkey PRIMARY KEY (workspace_id, id);

ALTER TABLE ONLY public.meetings
    ADD CONSTRAINT meetings_pkey PRIMARY KEY (workspace_id, id);

ALTER TABLE ONLY public.members
    ADD CONSTRAINT members_pkey PRIMARY KEY (workspace_id, user_id);

ALTER DOMAIN public.metadata
    ADD CONSTRAINT "metadata must be an object of short strings with short names" CHECK (public.is_metadata(VALUE)) NOT VALID;

ALTER TABLE ONLY public.plans
    ADD CONSTRAINT plans_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.previous_secrets
    ADD CONSTRAINT previous_secrets_pkey PRIMARY KEY (workspace_id, webhook_id, number);

ALTER TABLE ONLY public.processes
    ADD CONSTRAINT processes_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.schema_functions
    ADD CONSTRAINT schema_functions_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.workspaces
    ADD CONSTRAINT "slug is taken by another workspace" UNIQUE (slug);

ALTER TABLE ONLY public.suggestions
    ADD CONSTRAINT suggestions_pkey PRIMARY KEY (workspace_id, id);

ALTER TABLE ONLY public.tasks
    ADD CONSTRAINT tasks_pkey PRIMARY KEY (workspace_id, id);

ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_hash_key UNIQUE (hash);

ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.usage
    ADD CONSTRAINT usage_pkey PRIMARY KEY (workspace_id, subject);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.webhooks
    ADD CONSTRAINT webhooks_pkey PRIMARY KEY (workspace_id, id);

ALTER TABLE ONLY public.workspaces
    ADD CONSTRAINT workspaces_pkey PRIMARY KEY (id);

CREATE INDEX deleted_versions_by_id ON public.deleted_versions USING btree (workspace_id, id);

CREATE INDEX deliveries_by_event ON public.deliveries USING btree (workspace_id, event_id);

CREATE INDEX deliveries_by_state ON public.deliveries USING btree (workspace_id, webhook_id, state, id);

CREATE INDEX deliveries_due ON public.deliveries USING btree (workspace_id, webhook_id, due_at) WHERE (state = 'waiting'::text);

CREATE UNIQUE INDEX "email is taken by another user" ON public.users USING btree (lower(email));

CREATE INDEX events_by_age ON public.events USING btree (created_at);

CREATE INDEX events_by_position ON public.events USING btree (workspace_id, "position");

CREATE INDEX feeds_by_reading ON public.feeds USING btree (read_at);

CREATE INDEX former_members_by_user ON public.former_members USING btree (user_id);

CREATE INDEX idempotency_keys_by_age ON public.idempotency_keys USING btree (created_at);

CREATE INDEX knowledge_by_words ON public.knowledge USING gin (words);

CREATE INDEX mail_by_arrival ON public.mail USING btree (workspace_id, user_id, received_at, id);

CREATE INDEX mail_unread ON public.mail USING btree (workspace_id, user_id) WHERE (NOT read);

CREATE INDEX meetings_by_start ON public.meetings USING btree (workspace_id, start_time, id);

CREATE INDEX members_by_user ON public.members USING btree (user_id, workspace_id);

CREATE INDEX suggestions_by_task ON public.suggestions USING btree (workspace_id, task_id) WHERE (task_id IS NOT NULL);

CREATE INDEX suggestions_pending ON public.suggestions USING btree (workspace_id, id) WHERE (status = 'pending'::text);

CREATE INDEX tasks_by_assignee ON public.tasks USING btree (workspace_id, assignee_id, id);

CREATE INDEX tasks_by_completer ON public.tasks USING btree (workspace_id, completed_by, completed_at, id) WHERE (completed_by IS NOT NULL);

CREATE INDEX tasks_by_completion ON public.tasks USING btree (workspace_id, completed_at, id) WHERE (completed_at IS NOT NULL);

CREATE INDEX tasks_by_due_date ON public.tasks USING btree (workspace_id, status, due_date, id) WHERE (due_date IS NOT NULL);

CREATE INDEX tasks_by_parent ON public.tasks USING btree (workspace_id, parent_id, id) WHERE (parent_id IS NOT NULL);

CREATE INDEX tasks_by_priority ON public.tasks USING btree (workspace_id, priority, id);

CREATE INDEX tasks_by_project ON public.tasks USING btree (workspace_id, project_id, id) WHERE (project_id IS NOT NULL);

CREATE INDEX tasks_by_status ON public.tasks USING btree (workspace_id, status, id, due_date);

CREATE INDEX tokens_by_user ON public.tokens USING btree (user_id, id);

CREATE TRIGGER add_feed AFTER INSERT ON public.webhooks FOR EACH ROW EXECUTE FUNCTION public.add_feed();

CREATE TRIGGER announce_unassigned AFTER UPDATE OF assignee_id ON public.tasks FOR EACH ROW WHEN (((old.assignee_id IS NOT NULL) AND (new.assignee_id IS NULL) AND (pg_trigger_depth() > 0))) EXECUTE FUNCTION public.announce_unassigned();

CREATE TRIGGER check_assignee_of_changed BEFORE UPDATE OF assignee_id ON public.tasks FOR EACH ROW WHEN (((new.assignee_id IS NOT NULL) AND (new.assignee_id IS DISTINCT FROM old.assignee_id))) EXECUTE FUNCTION public.check_assignee();

CREATE TRIGGER check_assignee_of_new BEFORE INSERT ON public.tasks FOR EACH ROW WHEN ((new.assignee_id IS NOT NULL)) EXECUTE FUNCTION public.check_assignee();

CREATE TRIGGER check_parent_of_moved BEFORE UPDATE ON public.tasks FOR EACH ROW WHEN (((new.parent_id IS NOT NULL) AND (new.parent_id IS DISTINCT FROM old.parent_id))) EXECUTE FUNCTION public.check_parent();

CREATE TRIGGER check_parent_of_new BEFORE INSERT ON public.tasks FOR EACH ROW WHEN ((new.parent_id IS NOT NULL)) EXECUTE FUNCTION public.check_parent();

CREATE TRIGGER count_members_after_joining AFTER INSERT ON public.members REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.count_members();

CREATE TRIGGER count_members_after_leaving AFTER DELETE ON public.members REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.count_members();

CREATE TRIGGER end_membership AFTER DELETE ON public.members FOR EACH ROW EXECUTE FUNCTION public.end_membership();

CREATE TRIGGER forget_deleted_versions AFTER DELETE ON public.workspaces FOR EACH ROW EXECUTE FUNCTION public.forget_deleted_versions();

CREATE TRIGGER keep_completed BEFORE UPDATE ON public.meetings FOR EACH ROW WHEN (((old.status = 'completed'::text) AND (new.status <> 'completed'::text))) EXECUTE FUNCTION public.keep_completed();

CREATE TRIGGER keep_deleted_version BEFORE DELETE ON public.meetings FOR EACH ROW EXECUTE FUNCTION public.keep_deleted_version();

CREATE TRIGGER keep_deleted_version BEFORE DELETE ON public.tasks FOR EACH ROW EXECUTE FUNCTION public.keep_deleted_version();

CREATE TRIGGER lock_assigned_tasks BEFORE DELETE ON public.members FOR EACH ROW EXECUTE FUNCTION public.lock_assigned_tasks();

CREATE TRIGGER next_version BEFORE UPDATE ON public.meetings FOR EACH ROW WHEN (((new.version = old.version) AND (new.* IS DISTINCT FROM old.*))) EXECUTE FUNCTION public.next_dated_version();

CREATE TRIGGER next_version BEFORE UPDATE ON public.tasks FOR EACH ROW WHEN (((new.version = old.version) AND (new.* IS DISTINCT FROM old.*))) EXECUTE FUNCTION public.next_dated_version();

CREATE TRIGGER next_version BEFORE UPDATE ON public.webhooks FOR EACH ROW WHEN (((new.version = old.version) AND (((new.url IS DISTINCT FROM old.url) OR (new.events IS DISTINCT FROM old.events)) OR (new.disabled_at IS DISTINCT FROM old.disabled_at)))) EXECUTE FUNCTION public.next_version();

CREATE TRIGGER next_version BEFORE UPDATE ON public.workspaces FOR EACH ROW WHEN (((new.version = old.version) AND (new.* IS DISTINCT FROM old.*))) EXECUTE FUNCTION public.next_version();

CREATE TRIGGER record_completer BEFORE UPDATE OF status ON public.tasks FOR EACH ROW EXECUTE FUNCTION public.record_completer();

ALTER TABLE ONLY public.tasks
    ADD CONSTRAINT "assigneeId must be the id of a member of the workspace" FOREIGN KEY (workspace_id, assignee_id) REFERENCES public.members(workspace_id, user_id) ON DELETE SET NULL (assignee_id);

ALTER TABLE ONLY public.attempts
    ADD CONSTRAINT attempts_workspace_id_delivery_id_fkey FOREIGN KEY (workspace_id, delivery_id) REFERENCES public.deliveries(workspace_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.deliveries
    ADD CONSTRAINT deliveries_workspace_id_event_id_fkey FOREIGN KEY (workspace_id, event_id) REFERENCES public.events(workspace_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.deliveries
    ADD CONSTRAINT deliveries_workspace_id_webhook_id_fkey FOREIGN KEY (workspace_id, webhook_id) REFERENCES public.webhooks(workspace_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.event_cursors
    ADD CONSTRAINT event_cursors_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.feeds(workspace_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspaces(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.feeds
    ADD CONSTRAINT feeds_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspaces(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.former_members
    ADD CONSTRAINT former_members_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.former_members
    ADD CONSTRAINT former_members_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspaces(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.knowledge
    ADD CONSTRAINT knowledge_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspaces(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.mail
    ADD CONSTRAINT mail_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspaces(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.meetings
    ADD CONSTRAINT meetings_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspaces(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.tasks
    ADD CONSTRAINT "parentId must be the id of a task of the workspace" FOREIGN KEY (workspace_id, parent_id) REFERENCES public.tasks(workspace_id, id);

ALTER TABLE ONLY public.workspaces
    ADD CONSTRAINT "plan must be the name of a plan" FOREIGN KEY (plan) REFERENCES public.plans(name) ON UPDATE CASCADE;

ALTER TABLE ONLY public.previous_secrets
    ADD CONSTRAINT previous_secrets_workspace_id_webhook_id_fkey FOREIGN KEY (workspace_id, webhook_id) REFERENCES public.webhooks(workspace_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.suggestions
    ADD CONSTRAINT suggestions_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspaces(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.suggestions
    ADD CONSTRAINT "taskId must be the id of a task of the workspace" FOREIGN KEY (workspace_id, task_id) REFERENCES public.tasks(workspace_id, id) ON DELETE SET NULL (task_id);

ALTER TABLE ONLY public.tasks
    ADD CONSTRAINT tasks_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspaces(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.users
    ADD CONSTRAINT "the active workspace must be one that the user belongs to" FOREIGN KEY (active_workspace_id, id) REFERENCES public.members(workspace_id, user_id) ON DELETE SET NULL (active_workspace_id);

ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.mail
    ADD CONSTRAINT "user must be a member of the workspace" FOREIGN KEY (workspace_id, user_id) REFERENCES public.members(workspace_id, user_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.members
    ADD CONSTRAINT "user must be the e-mail address of a user" FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.webhooks
    ADD CONSTRAINT webhooks_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspaces(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.members
    ADD CONSTRAINT "workspace must be the slug of a workspace" FOREIGN KEY (workspace_id) REFERENCES public.workspaces(id) ON DELETE CASCADE;
