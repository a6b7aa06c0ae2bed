-- Reverse the order of the due deliveries, so that the newest has been due for the longest time.
UPDATE deliveries AS delivery
   SET due_at = now() - waiting.place * interval '1 second'
  FROM (
       SELECT due.workspace_id, due.id, row_number() OVER (ORDER BY due.id) AS place
         FROM deliveries AS due
        WHERE due.state = 'waiting'
          AND due.due_at <= now()
       ) AS waiting
 WHERE delivery.workspace_id = waiting.workspace_id
   AND delivery.id = waiting.id
RETURNING delivery.id;
