-- Insert members; a user without an active workspace gets the first one of these lines.
WITH item AS MATERIALIZED (
    SELECT line, workspace_id, user_id, role, joined_at
      FROM json_to_recordset(%(rows)s::json) AS item (
               line integer,
               workspace_id uuid,
               user_id uuid,
               role text,
               joined_at timestamptz
           )
), joined AS (
    INSERT INTO members (workspace_id, user_id, role, joined_at)
    SELECT item.workspace_id, item.user_id, item.role, coalesce(item.joined_at, now_ms())
      FROM item
     ORDER BY item.line
)
UPDATE users AS person
   SET active_workspace_id = first.workspace_id
  FROM (
           SELECT DISTINCT ON (item.user_id) item.user_id, item.workspace_id
             FROM item
            ORDER BY item.user_id, item.line
       ) AS first
 WHERE person.id = first.user_id
   AND person.active_workspace_id IS NULL;
