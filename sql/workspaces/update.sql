-- Change what the document names, for owners and admins; the answer says whether the caller is one.
-- The row is locked first, so that the comparison is with what is there now, not with what was.
WITH present AS MATERIALIZED (
    SELECT workspace AS kept,
           jsonb_populate_record(workspace, %(changes)s::jsonb) AS wanted,
           member.role IN ('owner', 'admin') AS permitted,
           (%(versions)s::integer[] IS NULL OR workspace.version = ANY (%(versions)s::integer[])) AS matched
      FROM workspaces AS workspace
      JOIN members AS member ON member.workspace_id = workspace.id
     WHERE member.user_id = %(user_id)s::uuid
       AND member.workspace_id = %(id)s::uuid
       FOR NO KEY UPDATE OF workspace
), changed AS (
    UPDATE workspaces AS workspace
       SET name = (wanted).name,
           timezone = (wanted).timezone,
           version = workspace.version + 1
      FROM present
     WHERE workspace.id = %(id)s::uuid
       AND permitted
       AND matched
       AND wanted IS DISTINCT FROM kept
 RETURNING workspace_details(workspace) AS body, workspace.version
)
SELECT body, version, true AS permitted, true AS matched FROM changed
 UNION ALL
SELECT workspace_details(kept), (kept).version, permitted, matched
  FROM present
 WHERE NOT EXISTS (SELECT FROM changed);
