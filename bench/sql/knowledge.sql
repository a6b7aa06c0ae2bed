-- Knowledge of workspace 0: one entry in three has "release", one in a thousand "rollback".
INSERT INTO knowledge (workspace_id, id, title, content, tags)
SELECT bench_id(0),
       bench_id(number),
       'Guide ' || number,
       'How the team ' || number %% 977 || ' handles '
           || CASE WHEN number %% 3 = 0 THEN 'a release' ELSE 'an incident' END
           || CASE WHEN number %% 1000 = 0 THEN ' and its rollback' ELSE ' and its review' END,
       ARRAY['guide', 'topic' || number %% 50]
  FROM generate_series(0, %(entries)s::integer - 1) AS number;
