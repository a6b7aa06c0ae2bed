-- Make every delivered delivery due again, with the same bytes and the same id.
UPDATE deliveries AS delivery
   SET state = 'waiting',
       due_at = now(),
       finished_at = NULL
 WHERE delivery.state = 'delivered'
RETURNING delivery.id;
