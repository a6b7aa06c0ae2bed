-- Keep the answer with the key, in the transaction of the change that it answers.
UPDATE idempotency_keys AS known
   SET status = %(status)s::integer,
       headers = %(headers)s::jsonb,
       body = %(body)s::text
 WHERE known.workspace_id = coalesce(%(workspace_id)s::uuid, '00000000-0000-0000-0000-000000000000')
   AND known.user_id = %(user_id)s::uuid
   AND known.key = %(key)s::text
RETURNING known.key;
