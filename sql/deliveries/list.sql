-- One page of the deliveries of a webhook, newest first.
-- PostgreSQL reads the newest deliveries of each wanted state, and none of another state. The
-- comparison with pairs lets only deliveries_by_state provide the order; with the id alone, the
-- planner could walk through the deliveries of all states by their ids.
SELECT CASE
           WHEN fits_page(sum(text_bytes(delivery::deliveries)) OVER page)
           THEN delivery_json(delivery::deliveries)
       END AS body,
       id_cursor(lag(id) OVER page) AS cursor
  FROM unnest(
           coalesce(string_to_array(%(state)s, ','), '{waiting,delivered,failed}')
       ) AS wanted (state)
 CROSS JOIN LATERAL (
       SELECT *
         FROM deliveries
        WHERE workspace_id = %(workspace_id)s
          AND webhook_id = %(webhook_id)s
          AND (state, id) >= (wanted.state, '00000000-0000-0000-0000-000000000000')
          AND (state, id) < (
                  wanted.state,
                  coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
              )
        ORDER BY state DESC, id DESC
        LIMIT %(limit)s + 1
       ) AS delivery
 WHERE manages_webhook(%(user_id)s, %(workspace_id)s, %(webhook_id)s)
WINDOW page AS (ORDER BY id DESC ROWS UNBOUNDED PRECEDING)
 ORDER BY id DESC
 LIMIT %(limit)s + 1;
