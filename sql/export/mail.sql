-- The mail of all users of a workspace, oldest first.
SELECT json_join(json_build_object('user', user_id), mail_json(mail)) AS body
  FROM mail
 WHERE workspace_id = %(id)s
 ORDER BY id;
