-- Store the response under the key of the request, in the transaction that makes the change.
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
   AND key = %(key)s;
