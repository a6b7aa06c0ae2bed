-- Insert members. A user without an active workspace gets the first workspace of these lines.
WITH item AS MATERIALIZED (
    SELECT ordinality, workspace_id, user_id, role, joined_at
      FROM json_populate_recordset(NULL::members, %(rows)s) WITH ORDINALITY AS item
), joined AS (
    INSERT INTO members (workspace_id, user_id, role, joined_at)
    SELECT workspace_id, user_id, role, coalesce(joined_at, now_ms())
      FROM item
)
UPDATE users
   SET active_workspace_id = first.workspace_id
  FROM (
           SELECT DISTINCT ON (user_id) user_id, workspace_id
             FROM item
            ORDER BY user_id, ordinality
       ) AS first
 WHERE id = first.user_id
   AND active_workspace_id IS NULL;
