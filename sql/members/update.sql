-- Change the role of a member of a workspace, unless the workspace would then have no owner.
SELECT permitted, has_owner, body
  FROM change_role(%(id)s, %(member_id)s, %(role)s, %(token_id)s)
 WHERE permitted IS NOT NULL;
