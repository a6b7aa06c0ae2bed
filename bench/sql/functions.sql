-- The id of the number-th row of its kind: a UUIDv7, in the order of the numbers (twin of bench.stage.row_id).
CREATE FUNCTION bench_id(number bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT (lpad(to_hex(1700000000000 + number), 12, '0') || '70008000000000000000')::uuid
$$;
