-- Functions that the tables and statements share.

-- A UUIDv7 (RFC 9562): 48 bits of milliseconds, 12 bits of their fraction, 62 random bits.
-- So ids sort by their timestamp, to a quarter of a microsecond, on every version of PostgreSQL.
-- The function is one expression that names its argument once, so that PostgreSQL inlines it.
CREATE FUNCTION new_id(at timestamptz DEFAULT clock_timestamp()) RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
    SELECT (
               overlay(
                   right(lpad(to_hex((extract(epoch FROM at) * 4096000)::bigint), 16, '0'), 15)
                   PLACING '7' FROM 13 FOR 0
               )
               || substring(gen_random_uuid()::text FROM 20)
           )::uuid
$$;

-- A timestamp in the form of responses: 2026-11-20T11:02:43.743Z.
CREATE FUNCTION iso(at timestamptz) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- The current time in milliseconds, which is the precision of responses.
CREATE FUNCTION now_ms() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT date_trunc('milliseconds', now())
$$;

-- The name by which AT TIME ZONE finds an IANA timezone. PostgreSQL takes CET, EET, MET and WET for
-- abbreviations, which have no summer time. So they get the names of the zones that IANA's database
-- defines them by. tests/statements/test_days.py compares the days of all names.
CREATE FUNCTION zone_name(timezone text) RETURNS text
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

-- The moment that follows the last millisecond of the day before. Midnight may not exist, or may
-- exist twice; PostgreSQL takes the second one then. The same is true of the millisecond before it,
-- and the earlier one of these two moments is the beginning of the day: in Havana the clocks go
-- back from 01:00 to 00:00, in Nuuk they go forward from 23:00 to 00:00. So each moment belongs to
-- one day.
CREATE FUNCTION beginning_of_day(day date, timezone text) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT least(
               day::timestamp AT TIME ZONE zone_name(timezone),
               (day - interval '1 millisecond') AT TIME ZONE zone_name(timezone)
                   + interval '1 millisecond'
           )
$$;

-- Join two objects and keep the order of their members (jsonb would sort them).
CREATE FUNCTION json_join(one json, other json) RETURNS json
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT (left(one::text, -1) || ',' || substr(other::text, 2))::json
$$;

-- Return a list of JSON values as a JSON array, which is empty if the list is NULL.
-- Responses have no spaces between values: row_to_json and array_to_json write none, while
-- json_build_object and json_agg do.
CREATE FUNCTION json_list(items json[]) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT coalesce(array_to_json(items), '[]')
$$;

-- The length of the longest string in a list, for constraints.
CREATE FUNCTION longest(list text[]) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT coalesce(max(length(item)), 0) FROM unnest(list) AS item
$$;

-- A timestamp that clients and drivers can read back: years 1900 to 9998 in UTC.
CREATE DOMAIN timestamp_ms AS timestamptz
    CONSTRAINT "timestamps lie in the years 1900 to 9998"
    CHECK (value >= '1900-01-01T00:00:00Z' AND value < '9999-01-01T00:00:00Z');

-- The number of first rows that together have at most 1 MiB; at least 1.
CREATE FUNCTION rows_within_1_mib(sizes integer[]) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT greatest(1, count(*))::integer
      FROM (
           SELECT sum(coalesce(size, 0)) OVER (ORDER BY number) AS bytes
             FROM unnest(sizes) WITH ORDINALITY AS item (size, number)
           ) AS running
     WHERE bytes <= 1048576
$$;

-- The number of the last row of a page that has a next page; NULL if this page is the last one.
-- The sizes are those of the long texts in bytes. PostgreSQL knows the sizes without reading the
-- texts, and makes JSON of one page only. The JSON can be six times as long as the texts.
CREATE FUNCTION last_row(sizes integer[], bytes bigint, max_rows integer) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
               WHEN bytes > 1048576 THEN rows_within_1_mib(sizes[:max_rows])
               WHEN cardinality(sizes) > max_rows THEN max_rows
           END
$$;

-- A timestamp as milliseconds since 1970, and back without loss: the sort keys in cursors.
CREATE FUNCTION to_millis(at timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT (extract(epoch FROM at) * 1000)::bigint
$$;

CREATE FUNCTION from_millis(millis bigint) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT timestamptz '1970-01-01T00:00:00Z'
         + millis / 1000 * interval '1 second'
         + millis % 1000 * interval '1 millisecond'
$$;

-- The cursor of a list that is ordered by id.
CREATE FUNCTION id_cursor(id uuid) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT replace(id::text, '-', '')
$$;

-- The cursor of a list that is ordered by a number and then by id.
CREATE FUNCTION keyed_cursor(key bigint, id uuid) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT key::text || '.' || replace(id::text, '-', '')
$$;

-- Increase the version also for changes that the service's statements do not make: by a foreign key
-- when a member leaves, or by an operator's UPDATE.
CREATE FUNCTION next_version() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    NEW.version := OLD.version + 1;
    RETURN NEW;
END
$$;

-- The same for a resource that shows when it was changed, unless the change sets that time itself.
CREATE FUNCTION next_dated_version() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    NEW.version := OLD.version + 1;
    IF NEW.updated_at = OLD.updated_at THEN
        NEW.updated_at := now_ms();
    END IF;
    RETURN NEW;
END
$$;
