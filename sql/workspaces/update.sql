-- Change the fields that the parameter names, if the caller is an owner or an admin of the
-- workspace.
SELECT body, version, permitted, matched
  FROM change_workspace(%(id)s, %(changes)s, %(versions)s, %(token_id)s)
 WHERE permitted IS NOT NULL;
