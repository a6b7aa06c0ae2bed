-- Insert one API token for each user: bench-0, bench-1, ...
INSERT INTO tokens (user_id, kind, scope, hash)
SELECT bench_id(number), 'api', 'write', sha256(('bench-' || number)::bytea)
  FROM generate_series(0, %(users)s::integer - 1) AS number;
