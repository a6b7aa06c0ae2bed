-- Remove a member from a workspace, unless the workspace would have no owner then. Everybody may
-- leave. To be removed is like to become a plain member, for roles and owners.
WITH asked AS MATERIALIZED (
    SELECT permitted OR %(user_id)s::uuid = %(member_id)s::uuid AS permitted,
           has_owner,
           -- For the events of the user's tasks.
           set_config('service.actor_id', %(user_id)s::uuid::text, true)
      FROM lock_member(
               %(user_id)s::uuid,
               %(token_workspace_id)s::uuid,
               %(id)s::uuid,
               %(member_id)s::uuid,
               'member'
           )
), removed AS (
    DELETE FROM members AS member
     USING asked
     WHERE member.workspace_id = %(id)s::uuid
       AND member.user_id = %(member_id)s::uuid
       AND permitted
       AND has_owner
)
SELECT permitted, has_owner, NULL::json AS body
  FROM asked;
