-- Change the fields that the parameter names, and announce the change. If no value changes, write
-- nothing.
SELECT body, version, matched, event_id
  FROM change_task(
           %(workspace_id)s, %(id)s, %(changes)s, %(versions)s, %(user_id)s, %(token_id)s
       )
 WHERE matched IS NOT NULL;
