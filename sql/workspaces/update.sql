-- Change the fields that the parameter names, if the caller is an owner or an admin of the
-- workspace.
-- The statement locks the row first, so that it checks the preconditions on the current version.
WITH locked AS MATERIALIZED (
    SELECT workspace AS before,
           jsonb_populate_record(workspace, %(changes)s) AS after,
           member.role IN ('owner', 'admin') AS permitted,
           workspace.version <@ %(versions)s::int4multirange AS matched
      FROM workspaces AS workspace
      JOIN memberships(%(user_id)s, %(token_workspace_id)s) AS member
        ON member.workspace_id = workspace.id
     WHERE member.workspace_id = %(id)s
       FOR NO KEY UPDATE OF workspace
), changed AS (
    UPDATE workspaces AS workspace
       SET name = (after).name,
           timezone = (after).timezone,
           version = workspace.version + 1
      FROM locked
     WHERE workspace.id = %(id)s
       AND permitted
       AND matched
       AND after IS DISTINCT FROM before
 RETURNING workspace_details(workspace) AS body, workspace.version
)
SELECT body, version, true AS permitted, true AS matched FROM changed
 UNION ALL
SELECT workspace_details(before), (before).version, permitted, matched
  FROM locked
 WHERE NOT EXISTS (SELECT FROM changed);
