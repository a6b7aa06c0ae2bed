-- Remove a member from a workspace, unless the workspace would then have no owner.
SELECT permitted, has_owner, NULL::json AS body
  FROM remove_member(%(id)s, %(member_id)s, %(user_id)s, %(token_id)s)
 WHERE permitted IS NOT NULL;
