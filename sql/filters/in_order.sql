-- Return whether the range between two bounds contains a moment. The timezone of the active
-- workspace says when a day begins.
SELECT in_order(%(lower)s, %(upper)s, %(workspace_id)s) AS in_order;
