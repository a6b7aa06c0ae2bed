-- Delete a meeting of a workspace that the caller belongs to, and announce its last state.
SELECT version, matched, body, event_id
  FROM workspace_of_meeting(%(id)s, %(user_id)s, %(in_workspace_id)s, %(workspace_id)s) AS found,
       delete_meeting(found, %(id)s, %(versions)s, %(user_id)s, %(token_id)s)
 WHERE matched IS NOT NULL;
