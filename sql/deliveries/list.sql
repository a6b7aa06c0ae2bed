-- One page of the deliveries of a webhook, newest first.
WITH page AS (
    SELECT delivery.*
      FROM unnest(
               coalesce(string_to_array(%(state)s, ','), '{waiting,delivered,failed}')
           ) AS wanted (state)
     -- Read the newest deliveries of each wanted state, and none of another state. The comparison
     -- with pairs lets only deliveries_by_state provide the order; with the id alone, the planner
     -- could walk through the deliveries of all states by their ids.
     CROSS JOIN LATERAL (
           SELECT *
             FROM deliveries
            WHERE workspace_id = %(workspace_id)s
              AND webhook_id = %(webhook_id)s
              AND (state, id)
                  >= (wanted.state, '00000000-0000-0000-0000-000000000000')
              AND (state, id) < (
                      wanted.state,
                      coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
                  )
            ORDER BY state DESC, id DESC
            LIMIT %(limit)s + 1
           ) AS delivery
     WHERE manages_webhook(%(user_id)s, %(workspace_id)s, %(webhook_id)s)
     ORDER BY delivery.id DESC
     LIMIT %(limit)s + 1
)
SELECT json_list(
           ARRAY(
               SELECT delivery_json(ROW(page.*)::deliveries)
                 FROM page
                ORDER BY id DESC
                LIMIT length
           )
       ) AS data,
       id_cursor((ARRAY(SELECT id FROM page ORDER BY id DESC))[length]) AS next_cursor
  FROM page_length(
           ARRAY(
               SELECT (
                          SELECT sum(octet_length(answer)) + 100 * count(*)
                            FROM attempts
                           WHERE workspace_id = page.workspace_id
                             AND delivery_id = page.id
                      )::integer
                 FROM page
                ORDER BY id DESC
           ),
           %(limit)s
       ) AS length;
