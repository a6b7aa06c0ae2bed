-- Return whether the caller may manage the webhooks of the active workspace, and the URL of the
-- webhook with this id. Return no row if there is no active workspace.
SELECT member.role IN ('owner', 'admin') AS permitted, webhook.url
  FROM members AS member
  LEFT JOIN webhooks AS webhook
    ON webhook.workspace_id = member.workspace_id
   AND webhook.id = %(id)s
   AND webhook.deleted_at IS NULL
 WHERE member.workspace_id = %(workspace_id)s
   AND member.user_id = %(user_id)s;
