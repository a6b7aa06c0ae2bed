-- Delete a task of the active workspace and its subtasks, and announce the last state of each,
-- subtasks first.
SELECT version, matched, body, deletable, event_ids
  FROM delete_task(%(workspace_id)s, %(id)s, %(versions)s, %(user_id)s, %(token_id)s)
 WHERE matched IS NOT NULL;
