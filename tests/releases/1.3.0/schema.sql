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
    SELECT CASE WHEN user_id IS NULL THEN 'owner' ELSE (
               SELECT member.role
                 FROM memberships(user_id, only_workspace_id) AS member
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

CREATE FUNCTION public.add_member(workspace_id uuid, email text, name text, new_role text, token_id uuid, OUT permitted boolean, OUT can_join boolean, OUT id uuid, OUT body json) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
    acting text := present_role(token_id, workspace_id);
    account users;
    member members;
    is_new boolean := false;
BEGIN
    -- Only a member may lock the workspace.
    IF acting IS NULL THEN
        RETURN;
    END IF;
    PERFORM lock_workspace(workspace_id, token_id);
    acting := present_role(token_id, workspace_id);
    permitted := acting = 'owner' OR acting = 'admin' AND new_role = 'member';
    IF permitted AND name IS NOT NULL THEN
        -- If another transaction is creating the same user, this waits for it.
        INSERT INTO users (email, name)
        VALUES (add_member.email, add_member.name)
            ON CONFLICT DO NOTHING;
        is_new := FOUND;
    END IF;
    SELECT *
      INTO account
      FROM users
     WHERE lower(users.email) = lower(add_member.email)
       FOR NO KEY UPDATE;
    id := account.id;
    can_join := account.deactivated_at IS NULL OR token_id IS NULL;
    IF permitted AND can_join AND account.id IS NOT NULL THEN
        INSERT INTO members (workspace_id, user_id, role)
        VALUES (add_member.workspace_id, account.id, new_role)
            ON CONFLICT ON CONSTRAINT members_pkey DO NOTHING
     RETURNING *
          INTO member;
        IF FOUND THEN
            body := member_json(account, member.role, member.joined_at);
            UPDATE users
               SET active_workspace_id = add_member.workspace_id
             WHERE users.id = account.id
               AND active_workspace_id IS NULL
               AND (is_new OR token_id IS NULL);
        END IF;
    END IF;
END
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

CREATE FUNCTION public.now_ms() RETURNS timestamp with time zone
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT date_trunc('milliseconds', now())
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

CREATE FUNCTION public.add_webhook(workspace_id uuid, url text, events text[], key_fingerprint text, token_id uuid) RETURNS public.webhooks
    LANGUAGE plpgsql
    AS $$
DECLARE
    webhook webhooks;
BEGIN
    PERFORM lock_workspace(workspace_id, token_id);
    IF present_role(token_id, workspace_id) IN ('owner', 'admin') AND (
        SELECT count(*) < 20
          FROM webhooks
         WHERE webhooks.workspace_id = add_webhook.workspace_id
           AND deleted_at IS NULL
    ) THEN
        INSERT INTO webhooks (workspace_id, url, events, key_fingerprint)
        VALUES (workspace_id, url, coalesce(events, '{}'), key_fingerprint)
     RETURNING *
          INTO webhook;
    END IF;
    RETURN webhook;
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

CREATE FUNCTION public.announce_unassigned() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF EXISTS (SELECT FROM workspaces WHERE id = NEW.workspace_id) THEN
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

CREATE FUNCTION public.await_older_releases(workspace_id uuid) RETURNS boolean
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

CREATE FUNCTION public.await_workspace(workspace_id uuid, token_id uuid, is_shared boolean) RETURNS uuid
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF is_shared THEN
        PERFORM pg_advisory_xact_lock_shared(7, uuid_hash(workspace_id));
    ELSE
        PERFORM pg_advisory_xact_lock(7, uuid_hash(workspace_id));
    END IF;
    IF present_role(token_id, workspace_id) IS NULL THEN
        RAISE no_data_found USING MESSAGE = 'Workspace not found';
    END IF;
    RETURN writable_workspace(workspace_id, token_id);
END
$$;

CREATE FUNCTION public.begin_batch(workspace_id uuid, ids uuid[], deleted_ids uuid[], is_alone boolean, token_id uuid, OUT missing uuid[], OUT fits boolean) RETURNS record
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(8, uuid_hash(workspace_id));
    IF is_alone THEN
        PERFORM lock_workspace(workspace_id, token_id);
    ELSE
        PERFORM share_workspace(workspace_id, token_id);
    END IF;
    PERFORM FROM tasks
      WHERE tasks.workspace_id = begin_batch.workspace_id
        AND id = ANY (ids)
        FOR NO KEY UPDATE;
    -- The JSON of a task is never shorter than its texts, so the function makes no JSON of tasks
    -- whose texts alone are too long.
    WITH concerned AS MATERIALIZED (
        SELECT *
          FROM tasks
         WHERE tasks.workspace_id = begin_batch.workspace_id
           AND (id = ANY (ids) OR parent_id = ANY (deleted_ids))
    )
    SELECT ARRAY(SELECT unnest(ids) EXCEPT SELECT id FROM concerned),
           CASE
               WHEN coalesce(sum(text_bytes(concerned::tasks)), 0) <= 4194304
                AND count(*) * enabled_webhooks(begin_batch.workspace_id) <= 20000
               THEN (
                        SELECT coalesce(sum(octet_length(task_json(concerned::tasks)::text)), 0)
                               <= 4194304
                          FROM concerned
                    )
               ELSE false
           END
      INTO missing, fits
      FROM concerned;
END
$$;

CREATE FUNCTION public.begin_feed(workspace_id uuid, user_id uuid, token_id uuid) RETURNS boolean
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

CREATE FUNCTION public.change_meeting(workspace_id uuid, id uuid, changes jsonb, versions int4multirange, user_id uuid, token_id uuid, OUT body json, OUT version integer, OUT matched boolean, OUT event_id uuid) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
    before meetings;
    after meetings;
BEGIN
    PERFORM share_workspace(workspace_id, token_id);
    SELECT *
      INTO before
      FROM meetings
     WHERE meetings.workspace_id = change_meeting.workspace_id
       AND meetings.id = change_meeting.id
       FOR NO KEY UPDATE;
    matched := before.version <@ versions;
    after := before;
    -- A precondition that fails comes before metadata that is too long.
    IF matched THEN
        after := jsonb_populate_record(before, with_metadata(changes, before.metadata));
    END IF;
    IF after IS DISTINCT FROM before THEN
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
               version = before.version + 1,
               updated_by = user_id,
               updated_by_version = before.version + 1
         WHERE meetings.workspace_id = change_meeting.workspace_id
           AND meetings.id = change_meeting.id
     RETURNING *
          INTO after;
        IF EXISTS (SELECT FROM feeds WHERE feeds.workspace_id = change_meeting.workspace_id) THEN
            body := meeting_details(after);
            event_id := announce(
                workspace_id,
                CASE
                    WHEN after.status <> before.status THEN 'meeting.completed'
                    ELSE 'meeting.updated'
                END,
                body,
                user_id,
                meeting_with_outcome(before)
            );
        END IF;
    END IF;
    body := coalesce(body, meeting_details(after));
    version := after.version;
END
$$;

CREATE FUNCTION public.change_role(workspace_id uuid, member_id uuid, new_role text, token_id uuid, OUT permitted boolean, OUT has_owner boolean, OUT body json) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
    old_role text;
BEGIN
    SELECT *
      INTO old_role, permitted, has_owner
      FROM check_member(workspace_id, member_id, new_role, token_id);
    IF permitted AND has_owner AND old_role <> new_role THEN
        UPDATE members
           SET role = new_role
         WHERE members.workspace_id = change_role.workspace_id
           AND user_id = member_id;
    END IF;
    body := (
        SELECT member_json(account, member.role, joined_at)
          FROM members AS member
          JOIN users AS account ON account.id = member.user_id
         WHERE member.workspace_id = change_role.workspace_id
           AND user_id = member_id
    );
END
$$;

CREATE FUNCTION public.change_task(workspace_id uuid, id uuid, changes jsonb, versions int4multirange, user_id uuid, token_id uuid, OUT body json, OUT version integer, OUT matched boolean, OUT event_id uuid) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
    before tasks;
    after tasks;
BEGIN
    IF changes ? 'parent_id' THEN
        PERFORM lock_workspace(workspace_id, token_id);
    ELSE
        PERFORM share_workspace(workspace_id, token_id);
    END IF;
    SELECT *
      INTO before
      FROM tasks
     WHERE tasks.workspace_id = change_task.workspace_id
       AND tasks.id = change_task.id
       FOR NO KEY UPDATE;
    matched := before.version <@ versions;
    after := before;
    -- A precondition that fails comes before metadata that is too long.
    IF matched THEN
        after := jsonb_populate_record(before, with_metadata(changes, before.metadata));
    END IF;
    IF after IS DISTINCT FROM before THEN
        UPDATE tasks
           SET title = after.title,
               description = after.description,
               status = after.status,
               priority = after.priority,
               due_date = after.due_date,
               -- A new timestamp comes without a day, so the old day is dropped. If a client sends
               -- a task back as it got it, the timestamp is the same, and the task keeps its day.
               due_day = CASE
                   WHEN changes ? 'due_day' OR after.due_date = before.due_date THEN after.due_day
               END,
               assignee_id = after.assignee_id,
               project_id = after.project_id,
               parent_id = after.parent_id,
               metadata = after.metadata,
               completed_at = CASE
                   WHEN after.status <> 'done' THEN NULL
                   ELSE coalesce(before.completed_at, now_ms())
               END,
               updated_at = now_ms(),
               version = before.version + 1,
               updated_by = user_id,
               updated_by_version = before.version + 1
         WHERE tasks.workspace_id = change_task.workspace_id
           AND tasks.id = change_task.id
     RETURNING *
          INTO after;
        IF EXISTS (SELECT FROM feeds WHERE feeds.workspace_id = change_task.workspace_id) THEN
            body := task_json(after);
            event_id := announce(workspace_id, 'task.updated', body, user_id, task_json(before));
        END IF;
    END IF;
    body := coalesce(body, task_json(after));
    version := after.version;
END
$$;

CREATE FUNCTION public.change_workspace(workspace_id uuid, changes jsonb, versions int4multirange, token_id uuid, OUT body json, OUT version integer, OUT permitted boolean, OUT matched boolean) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
    before workspaces;
    after workspaces;
    role text := present_role(token_id, workspace_id);
BEGIN
    IF role IS NULL THEN
        RETURN;
    END IF;
    PERFORM share_workspace(workspace_id, token_id);
    SELECT * INTO before FROM workspaces WHERE id = workspace_id FOR NO KEY UPDATE;
    role := present_role(token_id, workspace_id);
    permitted := role IN ('owner', 'admin');
    matched := before.version <@ versions;
    after := before;
    IF permitted AND matched THEN
        after := jsonb_populate_record(before, changes);
    END IF;
    IF after IS DISTINCT FROM before THEN
        UPDATE workspaces
           SET name = after.name,
               timezone = after.timezone,
               version = before.version + 1
         WHERE id = workspace_id
     RETURNING *
          INTO after;
    END IF;
    body := workspace_details(after);
    version := after.version;
END
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
       AND member.user_id = NEW.assignee_id;
    IF NOT FOUND THEN
        RAISE foreign_key_violation
              USING CONSTRAINT = 'assigneeId must be the id of a member of the workspace';
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

CREATE FUNCTION public.check_member(workspace_id uuid, member_id uuid, new_role text, token_id uuid, OUT role text, OUT permitted boolean, OUT has_owner boolean) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
    acting text := present_role(token_id, workspace_id);
BEGIN
    -- Only a member may lock the workspace.
    IF acting IS NULL THEN
        RETURN;
    END IF;
    PERFORM lock_workspace(workspace_id, token_id);
    acting := present_role(token_id, workspace_id);
    SELECT member.role,
           acting = 'owner'
           OR (acting = 'admin'
               AND member.role = 'member'
               AND coalesce(new_role, 'member') = 'member'),
           coalesce(new_role, member.role) = 'owner'
           OR member.role <> 'owner'
           OR EXISTS (
                  SELECT
                    FROM members AS other
                   WHERE other.workspace_id = member.workspace_id
                     AND other.role = 'owner'
                     AND other.user_id <> member.user_id
              )
      INTO role, permitted, has_owner
      FROM members AS member
     WHERE member.workspace_id = check_member.workspace_id
       AND member.user_id = member_id
       AND acting IS NOT NULL;
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
    SELECT parent_id
      INTO grandparent_id
      FROM tasks
     WHERE workspace_id = NEW.workspace_id
       AND id = NEW.parent_id
       FOR SHARE;
    IF NOT FOUND THEN
        RAISE foreign_key_violation
              USING CONSTRAINT = 'parentId must be the id of a task of the workspace',
                    HINT = 'Insert each task before its subtasks.';
    END IF;
    IF grandparent_id IS NOT NULL THEN
        RAISE check_violation USING CONSTRAINT = 'parentId must not be the id of a subtask';
    END IF;
    PERFORM FROM tasks
      WHERE workspace_id = NEW.workspace_id
        AND parent_id = NEW.id;
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
        UPDATE deliveries
           SET due_at = now() + lease * interval '1 second',
               attempts = attempts + 1
         WHERE workspace_id = in_workspace_id
           AND id = delivery_id
     RETURNING workspace_id,
               id,
               attempts,
               webhook_id,
               event_id
    )
    SELECT claimed.workspace_id,
           claimed.id,
           claimed.attempts,
           webhook.id,
           webhook.url,
           secret.secret_numbers,
           secret.key_fingerprints,
           'evt_' || id_cursor(event.id),
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
    PERFORM FROM workspaces
      WHERE id IN (SELECT workspace_id FROM changed)
      ORDER BY id
        FOR NO KEY UPDATE;
    UPDATE workspaces
       SET member_count = (SELECT count(*) FROM members WHERE workspace_id = workspaces.id)
     WHERE id IN (SELECT workspace_id FROM changed);
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
        SELECT usage.workspace_id,
               usage.subject,
               -- least() keeps a window from getting longer if the clock was set back.
               least(minute_started_at, now()),
               minute_count,
               least(day_started_at, now()),
               day_count,
               admitted
          INTO hit
          FROM usage
         WHERE usage.workspace_id = count_request.workspace_id
           AND usage.subject = count_request.subject
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
    UPDATE usage
       SET minute_started_at = hit.minute_started_at,
           minute_count = hit.minute_count,
           day_started_at = hit.day_started_at,
           day_count = hit.day_count,
           admitted = hit.admitted
     WHERE usage.workspace_id = hit.workspace_id
       AND usage.subject = hit.subject;
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

CREATE FUNCTION public.delete_meeting(workspace_id uuid, id uuid, versions int4multirange, user_id uuid, token_id uuid, OUT version integer, OUT matched boolean, OUT body json, OUT event_id uuid) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
    meeting meetings;
BEGIN
    PERFORM lock_workspace(workspace_id, token_id);
    SELECT *
      INTO meeting
      FROM meetings
     WHERE meetings.workspace_id = delete_meeting.workspace_id
       AND meetings.id = delete_meeting.id
       FOR UPDATE;
    version := meeting.version;
    matched := meeting.version <@ versions;
    IF matched IS NOT true THEN
        body := meeting_details(meeting);
        RETURN;
    END IF;
    DELETE FROM meetings
     WHERE meetings.workspace_id = delete_meeting.workspace_id
       AND meetings.id = delete_meeting.id;
    event_id := announce(workspace_id, 'meeting.deleted', meeting_details(meeting), user_id);
END
$$;

CREATE FUNCTION public.delete_rows(workspace_id uuid, number integer) RETURNS bigint
    LANGUAGE plpgsql
    AS $_$
DECLARE
    tablename text;
    deleted bigint;
BEGIN
    PERFORM lock_workspace(workspace_id);
    PERFORM set_config('service.keeps_versions', 'on', true);
    FOREACH tablename IN ARRAY
        '{events,tasks,meetings,mail,knowledge,deleted_versions}'::text[]
    LOOP
        EXECUTE format(
            'DELETE FROM %1$I WHERE ctid = ANY (ARRAY('
            'SELECT ctid FROM %1$I WHERE workspace_id = $1 %2$s LIMIT $2))',
            tablename,
            -- Subtasks first, because they refer to their parents.
            CASE tablename WHEN 'tasks' THEN 'ORDER BY parent_id IS NULL' END
        ) USING workspace_id, number;
        GET DIAGNOSTICS deleted = ROW_COUNT;
        IF deleted > 0 THEN
            RETURN deleted;
        END IF;
    END LOOP;
    RETURN 0;
END
$_$;

CREATE FUNCTION public.delete_task(workspace_id uuid, id uuid, versions int4multirange, user_id uuid, token_id uuid, OUT version integer, OUT matched boolean, OUT body json, OUT deletable boolean, OUT event_ids uuid[]) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
    task tasks;
    webhooks bigint;
    is_announced boolean;
BEGIN
    PERFORM lock_workspace(workspace_id, token_id);
    SELECT *
      INTO task
      FROM tasks
     WHERE tasks.workspace_id = delete_task.workspace_id
       AND tasks.id = delete_task.id
       FOR UPDATE;
    version := task.version;
    matched := task.version <@ versions;
    IF matched IS NOT true THEN
        body := task_json(task);
        RETURN;
    END IF;
    SELECT enabled_webhooks(feeds.workspace_id), read_at IS NOT NULL
      INTO webhooks, is_announced
      FROM feeds
     WHERE feeds.workspace_id = delete_task.workspace_id;
    is_announced := coalesce(is_announced OR webhooks > 0, false);
    deletable := NOT is_announced OR (
        SELECT count(*) <= 10000
               AND (count(*) + 1) * webhooks <= 20000
               AND coalesce(sum(text_bytes(subtask)), 0) <= 16777216
          FROM tasks AS subtask
         WHERE subtask.workspace_id = delete_task.workspace_id
           AND parent_id = delete_task.id
    );
    IF deletable THEN
        WITH deleted AS (
            DELETE FROM tasks
             WHERE tasks.workspace_id = delete_task.workspace_id
               AND (tasks.id = delete_task.id OR parent_id = delete_task.id)
         RETURNING *
        )
        SELECT ARRAY(
                   SELECT announce(
                              delete_task.workspace_id,
                              'task.deleted',
                              task_json(deleted::tasks),
                              user_id
                          )
                     FROM deleted
                    WHERE is_announced
                    ORDER BY parent_id IS NULL, deleted.id DESC
               )
          INTO event_ids;
    END IF;
END
$$;

CREATE FUNCTION public.delete_user(email text, OUT id uuid, OUT last_owner_of text[]) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
    locked uuid[];
BEGIN
    id := (SELECT users.id FROM users WHERE lower(users.email) = lower(delete_user.email));
    locked := lock_workspaces_of(id);
    -- From now on the user cannot join a workspace.
    PERFORM FROM users
      WHERE users.id = delete_user.id
        FOR UPDATE;
    IF EXISTS (
        SELECT FROM members WHERE user_id = delete_user.id AND workspace_id <> ALL (locked)
    ) THEN
        RAISE serialization_failure
              USING MESSAGE = 'the user has just joined another workspace: try again';
    END IF;
    last_owner_of := ARRAY(
        SELECT slug
          FROM members AS member
          JOIN workspaces AS workspace ON workspace.id = member.workspace_id
         WHERE member.user_id = delete_user.id
           AND member.role = 'owner'
           AND NOT EXISTS (
                   SELECT
                     FROM members AS other
                    WHERE other.workspace_id = member.workspace_id
                      AND other.role = 'owner'
                      AND other.user_id <> member.user_id
               )
         ORDER BY slug
    );
    IF last_owner_of = '{}' AND id IS NOT NULL THEN
        DELETE FROM users
         WHERE users.id = delete_user.id;
        -- These are the keys under the nil workspace. The trigger of members deletes the keys in
        -- workspaces.
        DELETE FROM idempotency_keys
         WHERE workspace_id = '00000000-0000-0000-0000-000000000000'
           AND user_id = delete_user.id
           -- A request that renews an expired key holds its row while it waits for the user.
           AND created_at >= clock_timestamp() - interval '24 hours';
        INSERT INTO deleted_users (id, deleted_at)
        VALUES (delete_user.id, now_ms())
            ON CONFLICT ON CONSTRAINT deleted_users_pkey DO UPDATE
           SET deleted_at = excluded.deleted_at;
    END IF;
END
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
                   'evt_' || id_cursor(event.id),
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
                              SELECT *
                                FROM attempts
                               WHERE workspace_id = delivery.workspace_id
                                 AND delivery_id = delivery.id
                               ORDER BY number DESC
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

CREATE FUNCTION public.enabled_webhooks(workspace_id uuid) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT count(*)
      FROM webhooks
     WHERE webhooks.workspace_id = enabled_webhooks.workspace_id
       AND disabled_at IS NULL
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
    UPDATE tokens
       SET revoked_at = now()
     WHERE user_id = OLD.user_id
       AND workspace_id = OLD.workspace_id
       AND revoked_at IS NULL;
    DELETE FROM usage
     WHERE workspace_id = OLD.workspace_id
       AND subject = OLD.user_id::text;
    DELETE FROM idempotency_keys
     WHERE user_id = OLD.user_id
       AND workspace_id IN (
               SELECT OLD.workspace_id
                UNION ALL
               SELECT '00000000-0000-0000-0000-000000000000'
                UNION ALL
               SELECT workspace_id FROM members WHERE user_id = OLD.user_id
           )
       AND (workspace_id = OLD.workspace_id
            OR OLD.workspace_id = ANY (shows)
            -- A release before 1.3.0 has stored this response.
            OR shows IS NULL AND body LIKE '%' || OLD.workspace_id || '%')
       -- A request that renews an expired key holds its row while it waits for the workspace. A key
       -- that expires while this transaction waits may be renewed too.
       AND created_at >= clock_timestamp() - interval '24 hours';
    RETURN NULL;
END
$$;

CREATE FUNCTION public.end_memberships(workspace_id uuid) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM lock_workspace(workspace_id);
    PERFORM set_config('service.keeps_versions', 'on', true);
    UPDATE tasks
       SET assignee_id = NULL
     WHERE tasks.workspace_id = end_memberships.workspace_id
       AND assignee_id IS NOT NULL;
    PERFORM FROM users
      WHERE id IN (
                SELECT user_id
                  FROM members
                 WHERE members.workspace_id = end_memberships.workspace_id
            )
      ORDER BY id
        FOR NO KEY UPDATE;
    DELETE FROM members
     WHERE members.workspace_id = end_memberships.workspace_id;
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
                       SELECT timezone
                         FROM workspaces
                        WHERE id = workspace_id
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

CREATE FUNCTION public.finish_deactivation(user_id uuid, since timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM lock_workspaces_of(user_id);
    UPDATE users
       SET deactivated_at = date_trunc(
               'milliseconds', now() + (clock_timestamp() - transaction_timestamp())
           )
     WHERE id = user_id
       AND deactivated_at = since;
END
$$;

CREATE FUNCTION public.first_version(type text, workspace_id uuid, id uuid, version integer DEFAULT 1) RETURNS integer
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF id IS NULL THEN
        RETURN version;
    END IF;
    IF type = 'task' THEN
        PERFORM FROM tasks
          WHERE tasks.workspace_id = first_version.workspace_id
            AND tasks.id = first_version.id
            FOR KEY SHARE;
    ELSE
        PERFORM FROM meetings
          WHERE meetings.workspace_id = first_version.workspace_id
            AND meetings.id = first_version.id
            FOR KEY SHARE;
    END IF;
    RETURN (
        SELECT greatest(first_version.version, max(deleted.version) + 1)
          FROM deleted_versions AS deleted
         WHERE deleted.workspace_id = first_version.workspace_id
           AND deleted.id = first_version.id
    );
END
$$;

CREATE FUNCTION public.fits_page(bytes bigint) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT (bytes > 1048576) IS NOT TRUE
$$;

CREATE FUNCTION public.forget_deleted_versions() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM deleted_versions
     WHERE workspace_id = OLD.id;
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

CREATE FUNCTION public.has_value(body text, path text[], value text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE
               WHEN value IS NULL THEN true
               WHEN strpos(body, value) = 0 THEN false
               ELSE body::json #>> path = value
           END
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

CREATE FUNCTION public.is_chosen(id uuid, filter text, user_id uuid) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE filter
               WHEN 'none' THEN id IS NULL
               WHEN 'me' THEN id = user_id
               ELSE filter IS NULL OR id = filter::uuid
           END
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
    IF pg_trigger_depth() = 1
       AND current_setting('service.keeps_versions', true) IS DISTINCT FROM 'on'
    THEN
        INSERT INTO deleted_versions (workspace_id, id, version)
        VALUES (OLD.workspace_id, OLD.id, OLD.version);
    END IF;
    RETURN OLD;
END
$$;

CREATE FUNCTION public.keyed_cursor(key bigint, id uuid) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT key::text || '.' || id_cursor(id)
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
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO meetings (
               workspace_id, id, title, start_time, end_time, platform, attendees, agenda, notes,
               status, summary, action_items, decisions, created_by, created_at, updated_at,
               version, updated_by, updated_by_version, metadata
           )
    SELECT workspace_id,
           coalesce(id, new_id(coalesce(created_at, clock_timestamp()))),
           title,
           start_time,
           end_time,
           platform,
           attendees,
           agenda,
           notes,
           status,
           summary,
           coalesce(action_items, '{}'),
           coalesce(decisions, '{}'),
           created_by,
           coalesce(created_at, now_ms()),
           coalesce(updated_at, created_at, now_ms()),
           version,
           last_editor(updated_by, created_by, version, created_at, updated_at),
           version,
           nullif(metadata, '{}')
      FROM json_populate_recordset(NULL::meetings, rows) WITH ORDINALITY AS item
     ORDER BY ordinality;
    UPDATE meetings AS meeting
       SET version = after.version,
           updated_by_version = after.version
      FROM versions_after_deletion(rows) AS after
     WHERE meeting.workspace_id = after.workspace_id
       AND meeting.id = after.id;
END
$$;

CREATE FUNCTION public.load_tasks(rows json) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO tasks (
               workspace_id, id, title, description, status, priority, due_date, due_day,
               assignee_id, project_id, parent_id, created_by, created_at, updated_at, completed_at,
               version, updated_by, updated_by_version, completed_by, metadata
           )
    SELECT workspace_id,
           coalesce(id, new_id(coalesce(created_at, clock_timestamp()))),
           title,
           description,
           status,
           priority,
           coalesce(due_date, end_of_day(due_day, workspace_id)),
           due_day,
           assignee_id,
           project_id,
           parent_id,
           created_by,
           coalesce(created_at, now_ms()),
           coalesce(updated_at, created_at, now_ms()),
           CASE
               WHEN status = 'done'
               THEN coalesce(completed_at, updated_at, created_at, now_ms())
           END,
           version,
           last_editor(updated_by, created_by, version, created_at, updated_at),
           version,
           completed_by,
           nullif(metadata, '{}')
      FROM json_populate_recordset(NULL::tasks, rows) WITH ORDINALITY AS item
     ORDER BY ordinality;
    UPDATE tasks AS task
       SET version = after.version,
           updated_by_version = after.version
      FROM versions_after_deletion(rows) AS after
     WHERE task.workspace_id = after.workspace_id
       AND task.id = after.id;
END
$$;

CREATE FUNCTION public.lock_and_count_tokens(user_id uuid, session_id uuid) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM FROM users
      WHERE id = lock_and_count_tokens.user_id
        AND deactivated_at IS NULL
        FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM FROM tokens AS session
      WHERE id = session_id
        AND session.user_id = lock_and_count_tokens.user_id
        AND kind = 'session'
        AND is_live(session)
        FOR SHARE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT count(*)
          FROM tokens AS token
         WHERE token.user_id = lock_and_count_tokens.user_id
           AND kind = 'api'
           AND is_live(token)
    );
END
$$;

CREATE FUNCTION public.lock_and_count_webhooks(workspace_id uuid) RETURNS bigint
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

CREATE FUNCTION public.lock_assigned_tasks() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN OLD;
END
$$;

CREATE FUNCTION public.lock_member(user_id uuid, only_workspace_id uuid, workspace_id uuid, member_id uuid, new_role text) RETURNS TABLE(role text, permitted boolean, has_owner boolean)
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

CREATE FUNCTION public.lock_webhook(workspace_id uuid, webhook_id uuid, token_id uuid) RETURNS SETOF public.webhooks
    LANGUAGE plpgsql ROWS 1
    AS $$
DECLARE
    webhook webhooks;
BEGIN
    PERFORM lock_workspace(workspace_id, token_id);
    -- A worker that records an outcome, or a change by an older release, may hold the row.
    SELECT *
      INTO webhook
      FROM webhooks
     WHERE webhooks.workspace_id = lock_webhook.workspace_id
       AND id = webhook_id
       AND deleted_at IS NULL
       FOR UPDATE;
    IF FOUND AND present_role(token_id, workspace_id) IN ('owner', 'admin') THEN
        RETURN NEXT webhook;
    END IF;
END
$$;

CREATE FUNCTION public.lock_workspace(workspace_id uuid, token_id uuid DEFAULT NULL::uuid) RETURNS uuid
    LANGUAGE sql
    AS $$
    SELECT CASE pg_try_advisory_xact_lock(7, uuid_hash(workspace_id))
               WHEN false THEN await_workspace(workspace_id, token_id, false)
               ELSE writable_workspace(workspace_id, token_id)
           END
$$;

CREATE FUNCTION public.lock_workspaces_of(user_id uuid) RETURNS uuid[]
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN ARRAY(
        SELECT lock_workspace(workspace_id)
          FROM (
               SELECT workspace_id
                 FROM members
                WHERE members.user_id = lock_workspaces_of.user_id
                ORDER BY uuid_hash(workspace_id)
               ) AS membership
    );
END
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
    SELECT manages(user_id, workspace_id)
           AND EXISTS (
                  SELECT
                    FROM webhooks
                   WHERE workspace_id = manages_webhook.workspace_id
                     AND id = manages_webhook.webhook_id
                     AND deleted_at IS NULL
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
ALTER TABLE ONLY public.tasks ALTER COLUMN parent_id SET (n_distinct=-0.2);
ALTER TABLE ONLY public.tasks ALTER COLUMN metadata SET STORAGE EXTERNAL;

CREATE FUNCTION public.matches(task public.tasks, filters jsonb, user_id uuid, workspace_id uuid) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT is_any(task.status, string_to_array(filters ->> 'status', ','))
       AND is_any(task.priority, string_to_array(filters ->> 'priority', ','))
       AND is_chosen(task.assignee_id, filters ->> 'assignee', user_id)
       AND (filters ->> 'project_id' IS NULL OR task.project_id = filters ->> 'project_id')
       AND is_chosen(task.parent_id, filters ->> 'parent_id', NULL)
       AND is_chosen(task.completed_by, filters ->> 'completed_by', user_id)
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
       AND is_chosen(task.assignee_id, assignee, user_id)
       AND (matches.project_id IS NULL OR task.project_id = matches.project_id)
       AND is_chosen(task.parent_id, matches.parent_id, NULL)
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
    SELECT *
      FROM members
     WHERE members.user_id = memberships.user_id
       AND workspace_id = coalesce(only_workspace_id, workspace_id)
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
                   created_by,
                   CASE WHEN updated_by_version = version THEN updated_by END,
                   completed_by
               ]
           )
      FROM tasks
     WHERE tasks.workspace_id = named_users.workspace_id
     UNION
    SELECT unnest(
               ARRAY[created_by, CASE WHEN updated_by_version = version THEN updated_by END]
           )
      FROM meetings
     WHERE meetings.workspace_id = named_users.workspace_id
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

CREATE FUNCTION public.present_role(token_id uuid, workspace_id uuid) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT CASE WHEN token_id IS NULL THEN 'owner' ELSE (
               SELECT member.role
                 FROM tokens AS token
                 JOIN users AS person ON person.id = token.user_id
                 JOIN members AS member
                   ON member.user_id = person.id
                  AND member.workspace_id = present_role.workspace_id
                WHERE token.id = token_id
                  AND is_live(token)
                  AND person.deactivated_at IS NULL
                  AND coalesce(token.workspace_id = member.workspace_id, true)
           ) END
$$;

CREATE FUNCTION public.pruning_time() RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    AS $$
    SELECT least(now(), (SELECT until FROM pruning_clock))
$$;

CREATE FUNCTION public.record_completer() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NEW.status <> OLD.status THEN
        NEW.completed_by := CASE
            WHEN NEW.status = 'done' AND NEW.updated_by_version = NEW.version THEN NEW.updated_by
        END;
        NEW.completed_at := CASE
            WHEN NEW.status = 'done' THEN coalesce(NEW.completed_at, now_ms())
        END;
    END IF;
    RETURN NEW;
END
$$;

CREATE FUNCTION public.remove_member(workspace_id uuid, member_id uuid, user_id uuid, token_id uuid, OUT permitted boolean, OUT has_owner boolean) RETURNS record
    LANGUAGE plpgsql
    AS $$
BEGIN
    SELECT checked.permitted OR user_id IS NOT DISTINCT FROM member_id, checked.has_owner
      INTO permitted, has_owner
      FROM check_member(workspace_id, member_id, 'member', token_id) AS checked
     WHERE checked.permitted IS NOT NULL;
    IF permitted AND has_owner THEN
        -- The removal clears the active workspace. The user comes before the member: the user may
        -- choose this workspace at the same time.
        PERFORM FROM users
          WHERE id = member_id
            FOR NO KEY UPDATE;
        -- The actor of the events that announce the member's tasks as unassigned.
        PERFORM set_config('service.actor_id', user_id::text, true);
        DELETE FROM members
         WHERE members.workspace_id = remove_member.workspace_id
           AND members.user_id = member_id;
    END IF;
END
$$;

CREATE FUNCTION public.revoke_tokens(user_id uuid) RETURNS SETOF uuid
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM FROM users
      WHERE id = revoke_tokens.user_id
        FOR NO KEY UPDATE;
    RETURN QUERY
    UPDATE tokens
       SET revoked_at = now()
     WHERE tokens.user_id = revoke_tokens.user_id
       AND revoked_at IS NULL
 RETURNING id;
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

CREATE FUNCTION public.share_workspace(workspace_id uuid, token_id uuid DEFAULT NULL::uuid) RETURNS uuid
    LANGUAGE sql
    AS $$
    SELECT CASE pg_try_advisory_xact_lock_shared(7, uuid_hash(workspace_id))
               WHEN false THEN await_workspace(workspace_id, token_id, true)
               ELSE writable_workspace(workspace_id, token_id)
           END
$$;

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
           SELECT count(*) AS waiting, min(due_at) AS due_at
             FROM deliveries
            WHERE workspace_id = webhook.workspace_id
              AND webhook_id = webhook.id
              AND state = 'waiting'
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
           (
               SELECT number, key_fingerprint
                 FROM previous_secrets
                WHERE workspace_id = webhook.workspace_id
                  AND webhook_id = webhook.id
                  AND expires_at > now()
                ORDER BY number DESC
                LIMIT 5
           )
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

CREATE FUNCTION public.text_bytes(delivery public.deliveries) RETURNS integer
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT (sum(octet_length(answer)) + 100 * count(*))::integer
      FROM (
           SELECT answer
             FROM attempts
            WHERE workspace_id = delivery.workspace_id
              AND delivery_id = delivery.id
            ORDER BY number DESC
            LIMIT 20
           ) AS attempt
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

CREATE FUNCTION public.update_task(after public.tasks, changes jsonb, user_id uuid) RETURNS public.tasks
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

CREATE FUNCTION public.usable_workspace(user_id uuid, only_workspace_id uuid, id uuid) RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT workspace_id
      FROM memberships(user_id, only_workspace_id)
     WHERE workspace_id = usable_workspace.id
$$;

CREATE FUNCTION public.versions_after_deletion(rows json) RETURNS TABLE(workspace_id uuid, id uuid, version integer)
    LANGUAGE sql STABLE
    AS $$
    SELECT item.workspace_id, item.id, deleted.version + 1
      FROM json_to_recordset(rows) AS item (workspace_id uuid, id uuid, version integer)
     CROSS JOIN LATERAL (
           SELECT max(version) AS version
             FROM deleted_versions
            WHERE deleted_versions.workspace_id = item.workspace_id
              AND deleted_versions.id = item.id
           ) AS deleted
     WHERE deleted.version >= item.version
$$;

CREATE FUNCTION public.wait_for_writers(seconds double precision) RETURNS boolean
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
    moves_to text,
    has_moved boolean DEFAULT false NOT NULL,
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

CREATE FUNCTION public.workspace_of_meeting(id uuid, user_id uuid, in_workspace_id uuid, active_workspace_id uuid) RETURNS uuid
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    found uuid[] := ARRAY(
        SELECT meeting.workspace_id
          FROM meetings AS meeting
          JOIN memberships(workspace_of_meeting.user_id, in_workspace_id) AS member
            ON member.workspace_id = meeting.workspace_id
         WHERE meeting.id = workspace_of_meeting.id
    );
BEGIN
    IF active_workspace_id = ANY (found) OR EXISTS (
        SELECT
          FROM deleted_versions
         WHERE workspace_id = active_workspace_id
           AND deleted_versions.id = workspace_of_meeting.id
    ) THEN
        RETURN active_workspace_id;
    END IF;
    IF cardinality(found) > 1 THEN
        RAISE cardinality_violation;
    END IF;
    RETURN found[1];
END
$$;

CREATE FUNCTION public.writable_workspace(workspace_id uuid, token_id uuid) RETURNS uuid
    LANGUAGE plpgsql
    AS $$
DECLARE
    place text;
BEGIN
    IF token_id IS NOT NULL THEN
        place := (SELECT moves_to FROM workspaces WHERE id = workspace_id);
        IF place IS NOT NULL THEN
            RAISE SQLSTATE 'TMW01' USING MESSAGE = 'The workspace is frozen', DETAIL = place;
        END IF;
    END IF;
    RETURN workspace_id;
END
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
    read_at timestamp with time zone,
    awaited text[]
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
    shows uuid[],
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

CREATE TABLE public.pruning_clock (
    id boolean DEFAULT true NOT NULL,
    until timestamp with time zone NOT NULL,
    advanced_at timestamp with time zone NOT NULL
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

ALTER TABLE ONLY public.pruning_clock
    ADD CONSTRAINT pruning_clock_pkey PRIMARY KEY (id);

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
