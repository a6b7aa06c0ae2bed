-- Insert members. A user without an active workspace gets the first workspace of these lines.
WITH item AS MATERIALIZED (
    SELECT ordinality, workspace_id, user_id, role, joined_at
      FROM json_populate_recordset(NULL::members, %(rows)s) WITH ORDINALITY AS item
), person AS MATERIALIZED (
    -- Users come first in the order of locks.
    SELECT account.id
      FROM users AS account
     WHERE account.id IN (SELECT item.user_id FROM item)
     ORDER BY account.id
       FOR NO KEY UPDATE
), joined AS (
    INSERT INTO members (workspace_id, user_id, role, joined_at)
    SELECT item.workspace_id, item.user_id, item.role, coalesce(item.joined_at, now_ms())
      FROM item
     WHERE (SELECT count(*) FROM person) >= 0
     ORDER BY item.ordinality
)
UPDATE users AS person
   SET active_workspace_id = first.workspace_id
  FROM (
           SELECT DISTINCT ON (item.user_id) item.user_id, item.workspace_id
             FROM item
            ORDER BY item.user_id, item.ordinality
       ) AS first
 WHERE person.id = first.user_id
   AND person.active_workspace_id IS NULL;
