-- Change the fields that the parameter names, and announce the change. If no value changes, write
-- nothing.
SELECT body, version, matched, event_id
  FROM workspace_of_meeting(%(id)s, %(user_id)s, %(in_workspace_id)s, %(workspace_id)s) AS found,
       change_meeting(found, %(id)s, %(changes)s, %(versions)s, %(user_id)s, %(token_id)s)
 WHERE matched IS NOT NULL;
