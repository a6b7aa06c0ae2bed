-- The live API tokens of the caller, newest first.
SELECT token_json(token) AS body
  FROM tokens AS token
 WHERE user_id = %(user_id)s
   AND kind = 'api'
   AND is_live(token)
 ORDER BY id DESC;
