-- Insert received mail, in the order of the lines.
INSERT INTO mail (
           workspace_id, id, user_id, sender, recipients, subject, snippet, read, received_at
       )
SELECT item.workspace_id,
       coalesce(item.id, new_id()),
       item.user_id,
       item.sender,
       item.recipients,
       item.subject,
       item.snippet,
       item.read,
       item.received_at
  FROM json_populate_recordset(NULL::mail, %(rows)s) WITH ORDINALITY AS item
 ORDER BY item.ordinality;
