-- Store the response under the key of the request, in the transaction that makes the change. Return
-- whether the caller is still a member; no row if this request itself has ended the membership.
-- A response that is much longer than its request is stored only while the responses of the user in
-- the workspace have at most 64 MiB.
UPDATE idempotency_keys AS stored
   SET status = %(status)s::integer,
       headers = %(headers)s,
       body = CASE
           WHEN NOT %(is_long)s::boolean OR (
                    SELECT coalesce(sum(octet_length(body)), 0) <= 67108864
                      FROM idempotency_keys AS other
                     WHERE other.workspace_id = stored.workspace_id
                       AND other.user_id = stored.user_id
                )
           THEN %(body)s::text
       END,
       shows = ARRAY(
           SELECT workspace_id
             FROM members
            WHERE members.user_id = stored.user_id
              AND position(members.workspace_id::text IN %(body)s) > 0
       )
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
                  WHERE members.workspace_id = stored.workspace_id
                    AND members.user_id = stored.user_id
             ) AS is_member;
