-- Attempt a delivery once more, with the same bytes; a disabled webhook gets it when enabled.
UPDATE deliveries AS delivery
   SET state = 'due',
       due_at = now(),
       finished_at = NULL
 WHERE delivery.id = %(id)s::uuid
RETURNING delivery.id;
