-- The live API tokens of the caller, newest first.
SELECT json_list(array_agg(token_json(token) ORDER BY id DESC)) AS body
  FROM tokens AS token
 WHERE user_id = %(user_id)s
   AND kind = 'api'
   AND is_live(token);
