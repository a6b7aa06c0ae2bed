-- Mark the feed of the active workspace as ready, once no transaction of an older release that may
-- have missed the feed runs. If one still runs after 50 ms, the client tries again later.
SELECT await_older_releases(%(workspace_id)s) AS ready;
