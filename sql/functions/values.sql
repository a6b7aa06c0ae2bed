-- Values of every resource: ids, times, JSON, cursors, and the end of a page.

-- Return a new UUIDv7 (RFC 9562) for a time: 48 bits of milliseconds, 12 bits of the fraction of
-- the millisecond, and 62 random bits.
-- So ids sort by their time, to a quarter of a microsecond, on every version of PostgreSQL.
-- The function is a single expression that uses its argument once, so that PostgreSQL inlines it.
CREATE OR REPLACE FUNCTION new_id(at timestamptz DEFAULT clock_timestamp()) RETURNS uuid
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

-- The current time, truncated to milliseconds: responses have no finer precision.
CREATE OR REPLACE FUNCTION now_ms() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT date_trunc('milliseconds', now())
$$;

-- A timestamp as responses write it: 2026-11-20T11:02:43.743Z.
CREATE OR REPLACE FUNCTION iso(at timestamptz) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- Convert a timestamp to milliseconds since 1970; from_millis() converts them back without loss.
-- Cursors contain their sort key in this form.
CREATE OR REPLACE FUNCTION to_millis(at timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT (extract(epoch FROM at) * 1000)::bigint
$$;

CREATE OR REPLACE FUNCTION from_millis(millis bigint) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT timestamptz '1970-01-01T00:00:00Z'
         + millis / 1000 * interval '1 second'
         + millis % 1000 * interval '1 millisecond'
$$;

-- Return the name with which AT TIME ZONE finds an IANA timezone.
-- PostgreSQL takes CET, EET, MET and WET for abbreviations, which have no summer time. The function
-- replaces these names with the zones that define them in IANA's database.
-- tests/statements/test_days.py compares the days of every timezone.
CREATE OR REPLACE FUNCTION zone_name(timezone text) RETURNS text
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

-- Return the moment at which a day begins in a timezone. It follows directly after the last
-- millisecond of the day before, so that each moment belongs to exactly one day.
-- Converting local midnight is not enough, because some timezones change their clocks around it:
-- * In Havana the clocks go back from 01:00 to 00:00. Midnight happens twice, and PostgreSQL takes
--   the second one. But the millisecond before midnight happens once, and the day begins after it.
-- * In Nuuk the clocks go forward from 23:00 to 00:00. The millisecond before midnight does not
--   exist, and PostgreSQL converts it to a moment that is an hour too late. But midnight happens
--   once.
-- So the function computes the day's beginning in both ways, and returns the earlier moment.
CREATE OR REPLACE FUNCTION beginning_of_day(day date, timezone text) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT least(
               day::timestamp AT TIME ZONE zone_name(timezone),
               (day - interval '1 millisecond') AT TIME ZONE zone_name(timezone)
                   + interval '1 millisecond'
           )
$$;

-- Return the last millisecond of a day in the timezone of a workspace, or in UTC if the workspace
-- is NULL: a user without an active workspace can list the meetings of others.
-- The language is PL/pgSQL because PostgreSQL does not inline it. So a statement reads the
-- workspace only if it is given a day, and not if it is given a timestamp.
CREATE OR REPLACE FUNCTION end_of_day(day date, workspace_id uuid) RETURNS timestamptz
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

-- Return the moment of a bound for due dates or meetings, which is a timestamp or a day. A day
-- stands for its beginning in the timezone of the workspace.
CREATE OR REPLACE FUNCTION time_bound(bound text, workspace_id uuid) RETURNS timestamptz
LANGUAGE sql STABLE
AS $$
    SELECT CASE length(bound)
               WHEN 10 THEN end_of_day(bound::date - 1, workspace_id) + interval '1 millisecond'
               ELSE bound::timestamptz
           END
$$;

-- Return whether the range between these bounds contains a moment. Either bound may be NULL.
CREATE OR REPLACE FUNCTION in_order(
    lower_bound text, upper_bound text, workspace_id uuid
) RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT coalesce(
               time_bound(lower_bound, workspace_id) < time_bound(upper_bound, workspace_id), true
           )
$$;

-- Return whether a list contains an item. NULL instead of a list contains everything.
-- With one value, the function compares with =, so that an index on the column also provides the
-- order, see matches() of a task.
CREATE OR REPLACE FUNCTION is_any(item text, list text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE cardinality(list)
               WHEN 1 THEN item = list[1]
               ELSE list IS NULL OR item = ANY (list)
           END
$$;

-- Return the length of the longest string in a list; constraints use it.
CREATE OR REPLACE FUNCTION longest(list text[]) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT coalesce(max(length(item)), 0) FROM unnest(list) AS item
$$;

-- Join two JSON objects and keep the order of their members; jsonb would sort them.
CREATE OR REPLACE FUNCTION json_join(one json, other json) RETURNS json
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT (left(one::text, -1) || ',' || substr(other::text, 2))::json
$$;

-- Return whether a value is an object whose names and strings have lengths that metadata allows.
-- Raise a check violation if the object has too many pairs or bytes.
CREATE OR REPLACE FUNCTION is_metadata(metadata jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $$
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
$$;

-- Merge the metadata of an object into its changes (RFC 7396): return the changes with all metadata
-- that the object has after them. Names that the changes lack stay, and null removes a name. NULL
-- stands for an empty object.
CREATE OR REPLACE FUNCTION with_metadata(changes jsonb, metadata jsonb) RETURNS jsonb
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

-- Return metadata as responses show it, without the spaces that jsonb has.
CREATE OR REPLACE FUNCTION metadata_json(metadata jsonb) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT coalesce(json_strip_nulls(metadata::json), '{}')
$$;

-- Return a list of JSON values as a JSON array. If the list is NULL, the array is empty.
-- Responses have no spaces between values. row_to_json and array_to_json write no spaces, but
-- json_build_object and json_agg do.
CREATE OR REPLACE FUNCTION json_list(items json[]) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT coalesce(array_to_json(items), '[]')
$$;

-- Return an object with these members of another object, in the order of their names in the list.
CREATE OR REPLACE FUNCTION members_of(object json, names json) RETURNS json
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

-- An id without hyphens: the cursor of a list that is ordered by id, and the end of an event's id.
CREATE OR REPLACE FUNCTION id_cursor(id uuid) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT replace(id::text, '-', '')
$$;

-- The cursor of a list that is ordered by a number and then by id.
CREATE OR REPLACE FUNCTION keyed_cursor(key bigint, id uuid) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT key::text || '.' || id_cursor(id)
$$;

-- Return whether a row belongs to a page, given the bytes of the long texts of the page up to this
-- row: a page has 1 MiB of them at most.
-- A statement that shows a page returns one row more than the page may have. Each row has its JSON,
-- which is NULL if the page ends before the row, and the cursor with which a page begins there.
-- PostgreSQL inlines this function and text_bytes() of a row, and knows the sizes of texts without
-- reading them. So it reads texts and makes JSON for the rows of one page only. The JSON can be six
-- times as long as the texts. No single row exceeds the limit; tests/api/test_page_size.py tries
-- the longest of each list.
CREATE OR REPLACE FUNCTION fits_page(bytes bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT (bytes > 1048576) IS NOT TRUE
$$;

-- Return the range of the next 128 pages of a table that is pruned without an index, and the
-- position of the range that follows, or NULL after the last one. The first position is ''.
-- Such a table has no index by age. Otherwise each request that writes to the table would have to
-- write to this index too.
CREATE OR REPLACE FUNCTION next_pages(
    pruned regclass, after text, OUT first tid, OUT beyond tid, OUT next text
)
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
