-- After users/deactivate has committed, wait for the writes that may still assign tasks to the
-- user.
SELECT finish_deactivation(%(id)s, %(since)s::timestamptz);
