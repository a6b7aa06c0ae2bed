-- After a successful ping, make the waiting deliveries due now. A disabled webhook stays disabled.
UPDATE webhooks
   SET failing_since = NULL,
       backoff_until = NULL
 WHERE workspace_id = %(workspace_id)s
   AND id = %(id)s
   AND disabled_at IS NULL
   AND present_role(%(token_id)s, %(workspace_id)s) IN ('owner', 'admin')
RETURNING catch_up(workspace_id, id, interval '0');
