-- From now on, let changes in the active workspace write events, for at least WEBHOOK_KEEP hours.
SELECT begin_feed(%(workspace_id)s, %(user_id)s, %(token_id)s) AS ready;
