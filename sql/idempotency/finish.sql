-- Store the response under the key of the request, in the transaction that makes the change. Return
-- whether the caller is still a member; no row if this request itself has ended the membership.
UPDATE idempotency_keys
   SET status = %(status)s::integer,
       headers = %(headers)s,
       body = %(body)s
 WHERE workspace_id = coalesce(
           %(token_workspace_id)s,
           %(workspace_id)s::uuid,
           '00000000-0000-0000-0000-000000000000'
       )
   AND user_id = %(user_id)s
   AND key = %(key)s
RETURNING workspace_id = '00000000-0000-0000-0000-000000000000'
          OR EXISTS (
                 SELECT
                   FROM members
                  WHERE workspace_id = idempotency_keys.workspace_id
                    AND user_id = idempotency_keys.user_id
             ) AS is_member;
