-- Return the id of the row with this number, a UUIDv7. Ids have the order of the numbers.
-- bench.stage.row_id does the same in Python.
CREATE FUNCTION bench_id(number bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT (lpad(to_hex(1700000000000 + number), 12, '0') || '70008000000000000000')::uuid
$$;
