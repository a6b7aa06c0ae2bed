-- Insert meetings, scheduled or completed, in the order of their lines.
INSERT INTO meetings (
           workspace_id, id, title, start_time, end_time, platform, attendees, agenda, notes,
           status, summary, action_items, decisions, created_by, created_at, updated_at,
           version, updated_by, updated_by_version
       )
SELECT item.workspace_id,
       coalesce(item.id, new_id(coalesce(item.created_at, clock_timestamp()))),
       item.title,
       item.start_time,
       item.end_time,
       item.platform,
       item.attendees,
       item.agenda,
       item.notes,
       item.status,
       item.summary,
       coalesce(item.action_items, '{}'),
       coalesce(item.decisions, '{}'),
       item.created_by,
       coalesce(item.created_at, now_ms()),
       coalesce(item.updated_at, item.created_at, now_ms()),
       first,
       -- If the line has no updatedBy, and nothing has changed the object, it is the author.
       CASE
           WHEN item.updated_by IS NULL
            AND item.version = 1
            AND coalesce(item.updated_at = item.created_at, item.updated_at IS NULL)
           THEN item.created_by
           ELSE item.updated_by
       END,
       first
  FROM json_populate_recordset(NULL::meetings, %(rows)s::json) WITH ORDINALITY AS item
 CROSS JOIN LATERAL first_version('meeting', item.workspace_id, item.id, item.version) AS first
 ORDER BY item.ordinality;
