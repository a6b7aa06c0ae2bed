-- Remember the users whom loaded tasks and meetings name and who are not members of the workspace,
-- so that members can read their names. Deleted users have no name, and so no row.
INSERT INTO former_members (workspace_id, user_id)
SELECT item.workspace_id, person.id
  FROM json_populate_recordset(NULL::former_members, %(rows)s) AS item
  JOIN users AS person ON person.id = item.user_id
 WHERE NOT EXISTS (
           SELECT
             FROM members
            WHERE workspace_id = item.workspace_id
              AND user_id = item.user_id
       )
 ORDER BY item.workspace_id, item.user_id
    ON CONFLICT (workspace_id, user_id) DO NOTHING;
