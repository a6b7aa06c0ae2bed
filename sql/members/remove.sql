-- Remove a member from a workspace, unless the workspace would then have no owner.
-- Every member may leave. Removing another member needs the same rights as demoting that member to
-- a plain member.
WITH person AS MATERIALIZED (
    -- The removal can clear the active workspace, so the user comes first in the order of locks.
    SELECT account.id
      FROM users AS account
      JOIN members AS member ON member.user_id = account.id
     WHERE account.id = %(member_id)s
       AND member.workspace_id = %(id)s
       AND acting_role(%(user_id)s, %(token_workspace_id)s, %(id)s) IS NOT NULL
       FOR NO KEY UPDATE OF account
), asked AS MATERIALIZED (
    SELECT permitted OR %(user_id)s::uuid = person.id AS permitted,
           has_owner,
           -- The actor of the events that announce the member's tasks as unassigned.
           set_config('service.actor_id', %(user_id)s::uuid::text, true)
      FROM person
     CROSS JOIN LATERAL lock_member(
               %(user_id)s,
               %(token_workspace_id)s,
               %(id)s,
               person.id,
               'member'
           )
), removed AS (
    DELETE FROM members AS member
     USING asked
     WHERE member.workspace_id = %(id)s
       AND member.user_id = %(member_id)s
       AND permitted
       AND has_owner
)
SELECT permitted, has_owner, NULL::json AS body
  FROM asked;
