-- Insert received mail, in the order of the lines.
INSERT INTO mail (
           workspace_id, id, user_id, sender, recipients, subject, snippet, read, received_at
       )
SELECT workspace_id,
       coalesce(id, new_id()),
       user_id,
       sender,
       recipients,
       subject,
       snippet,
       read,
       received_at
  FROM json_populate_recordset(NULL::mail, %(rows)s) WITH ORDINALITY
 ORDER BY ordinality;
