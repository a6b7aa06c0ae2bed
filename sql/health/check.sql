-- The database answers.
SELECT json_build_object('status', 'ok') AS body;
