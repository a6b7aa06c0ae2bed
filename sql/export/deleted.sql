-- The last versions of the deleted tasks and meetings of a workspace.
SELECT json_build_object(
           'id', id, 'version', max(version), 'deletedAt', iso(max(deleted_at))
       ) AS body
  FROM deleted_versions
 WHERE workspace_id = %(id)s
 GROUP BY id
 ORDER BY id;
