-- Make a workspace that the caller belongs to the active one; a token that is made for one
-- workspace cannot.
WITH credential AS MATERIALIZED (
    SELECT token.workspace_id IS NULL AS can_choose
      FROM tokens AS token
     WHERE token.id = %(token_id)s::uuid
       AND token.user_id = %(user_id)s::uuid
), activated AS (
    UPDATE users AS person
       SET active_workspace_id = member.workspace_id
      FROM members AS member
     CROSS JOIN credential
     WHERE person.id = %(user_id)s::uuid
       AND member.user_id = person.id
       AND member.workspace_id = %(id)s::uuid
       AND can_choose
 RETURNING member.workspace_id
)
SELECT can_choose, activated.workspace_id
  FROM credential
  LEFT JOIN activated ON true;
