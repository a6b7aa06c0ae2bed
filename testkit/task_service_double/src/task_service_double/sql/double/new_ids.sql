-- Return a new id for each time of creation, in the order of the list. NULL stands for now.
SELECT ARRAY(
           SELECT new_id(coalesce(given.created_at, clock_timestamp()))
             FROM unnest(%(created)s::timestamptz[]) WITH ORDINALITY AS given (created_at, place)
            ORDER BY given.place
       ) AS ids;
